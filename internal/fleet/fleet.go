// Package fleet is the vocabulary of upstream targets: where a call can be
// sent, and how the calls that were sent there went. Every package may import
// it; it imports nothing but the standard library.
package fleet

// Leg is one place a call can be sent: a configured provider and the name the
// model has there.
type Leg struct {
	Provider string
	Model    string
	Weight   int

	target string // see NewLeg
}

// NewLeg makes a leg whose target is put together once.
func NewLeg(provider, model string, weight int) Leg {
	l := Leg{Provider: provider, Model: model, Weight: weight}
	l.target = l.Target()
	return l
}

// Target names the leg as users see it, "provider/model".
func (l Leg) Target() string {
	if l.target != "" {
		return l.target
	}
	return l.Provider + "/" + l.Model
}
