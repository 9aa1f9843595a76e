package fake

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Dist is a distribution that is drawn from once per event. It is written as
// text: "50ms" (always that), "uniform(10ms,50ms)" (least, most),
// "lognormal(40ms,0.5)" (median, sigma) or "pareto(20ms,1.5)" (scale, shape).
// Counts are written the same way with plain numbers: "64", "uniform(10,200)".
// No draw exceeds an hour or a million. The zero Dist is unset.
type Dist struct {
	shape shape
	timed bool // a (and b, if uniform) are nanoseconds
	a, b  float64
}

type shape uint8

const (
	unset shape = iota
	constant
	uniform
	lognormal
	pareto
)

// Heavy tails are cut here, so that one unlucky draw does not hang a test.
const (
	maxWait  = float64(time.Hour)
	maxCount = 1e6
)

const distForms = "write 50ms, uniform(10ms,50ms), lognormal(40ms,0.5) or pareto(20ms,1.5), with plain numbers for counts"

// Wait is the Dist that always draws d.
func Wait(d time.Duration) Dist { return Dist{shape: constant, timed: true, a: float64(d)} }

// Count is the Dist that always draws n.
func Count(n int) Dist { return Dist{shape: constant, a: float64(n)} }

// ParseDist reads the written form.
func ParseDist(text string) (Dist, error) {
	name, rest, call := strings.Cut(strings.TrimSpace(text), "(")
	if !call {
		v, timed, err := parseQuantity(name)
		return Dist{constant, timed, v, 0}, err
	}
	inside, closed := strings.CutSuffix(rest, ")")
	first, second, two := strings.Cut(inside, ",")
	if !closed || !two {
		return Dist{}, fmt.Errorf("%q is not a distribution; %s", text, distForms)
	}
	a, timed, err := parseQuantity(strings.TrimSpace(first))
	if err != nil {
		return Dist{}, err
	}
	b, timed2, err := parseQuantity(strings.TrimSpace(second))
	if err != nil {
		return Dist{}, err
	}
	d := Dist{timed: timed, a: a, b: b}
	switch name {
	case "uniform":
		d.shape = uniform
		d.timed = timed || timed2
		if a != 0 && b != 0 && timed != timed2 || b < a {
			return Dist{}, fmt.Errorf("%q is not uniform(least,most); write two values of one unit, the smaller first", text)
		}
	case "lognormal", "pareto":
		d.shape = lognormal
		if name == "pareto" {
			d.shape = pareto
		}
		if timed2 || b <= 0 || b > 100 {
			return Dist{}, fmt.Errorf("the second value of %q is a plain number above 0 and at most 100; %s", text, distForms)
		}
	default:
		return Dist{}, fmt.Errorf("unknown distribution %q; %s", name, distForms)
	}
	return d, nil
}

// MustDist is ParseDist for texts known when the program is written.
func MustDist(text string) Dist {
	d, err := ParseDist(text)
	if err != nil {
		panic("fake: " + err.Error())
	}
	return d
}

// parseQuantity reads a plain number or a duration.
func parseQuantity(s string) (v float64, timed bool, err error) {
	if v, err = strconv.ParseFloat(s, 64); err == nil {
		if v < 0 || math.IsNaN(v) || v > maxCount {
			return 0, false, fmt.Errorf("%q is out of range; write a number from 0 to %.0f", s, maxCount)
		}
		return v, false, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, false, fmt.Errorf("%q is neither a duration nor a number; %s", s, distForms)
	}
	if d < 0 || float64(d) > maxWait {
		return 0, false, fmt.Errorf("%q is out of range; write a duration from 0s to 1h", s)
	}
	return float64(d), true, nil
}

// UnmarshalText parses the written form; an empty text is the unset Dist, as
// MarshalText writes it.
func (d *Dist) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*d = Dist{}
		return nil
	}
	v, err := ParseDist(string(b))
	if err == nil {
		*d = v
	}
	return err
}

// MarshalText gives the written form.
func (d Dist) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String gives the written form; it is "" for the unset Dist.
func (d Dist) String() string {
	first := d.quantity(d.a)
	switch d.shape {
	case constant:
		return first
	case uniform:
		return "uniform(" + first + "," + d.quantity(d.b) + ")"
	case lognormal:
		return "lognormal(" + first + "," + plain(d.b) + ")"
	case pareto:
		return "pareto(" + first + "," + plain(d.b) + ")"
	}
	return ""
}

func (d Dist) quantity(v float64) string {
	if d.timed {
		return time.Duration(v).String()
	}
	return plain(v)
}

func plain(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// IsZero is whether nothing was written.
func (d Dist) IsZero() bool { return d.shape == unset }

// Duration draws a length of time.
func (d Dist) Duration(r *rand.Rand) time.Duration { return time.Duration(min(d.draw(r), maxWait)) }

// Int draws a whole number.
func (d Dist) Int(r *rand.Rand) int { return int(math.Round(min(d.draw(r), maxCount))) }

func (d Dist) draw(r *rand.Rand) float64 {
	switch d.shape {
	case constant:
		return d.a
	case uniform:
		return d.a + r.Float64()*(d.b-d.a)
	case lognormal:
		return d.a * math.Exp(d.b*r.NormFloat64())
	case pareto:
		// 1-Float64 lies in (0,1], so the quotient is finite.
		return d.a / math.Pow(1-r.Float64(), 1/d.b)
	}
	return 0
}

// wantTime says what is wrong with d as a length of time, "" if nothing.
func (d Dist) wantTime() string {
	if d.shape != unset && !d.timed && d.a+d.b != 0 {
		return fmt.Sprintf("%q has no unit; write a duration such as 50ms or uniform(10ms,50ms)", d)
	}
	return ""
}

// wantCount says what is wrong with d as a count, "" if nothing.
func (d Dist) wantCount() string {
	if d.timed {
		return fmt.Sprintf("%q is a duration; write a number such as 64 or uniform(10,200)", d)
	}
	return ""
}
