package journal

import (
	"math"
	"strings"
)

// Admission is what was decided of a request before any provider was asked. It
// is kept small, since every record of a limited gateway has one; names are put
// together only when somebody looks.
type Admission struct {
	// Role permits the operation, "" where no role was asked. Denied is the role
	// or the condition that forbade the request, "" where none did.
	Role, Denied string
	// Limit is the rule or budget that refused the call, or else the tightest.
	Limit string
	// Conditions are all that there are; held says which of them were about the
	// request and held, as bits by their place.
	Conditions *[]string
	Held       uint64
	// input and output are the tokens that limits and budgets reckoned with.
	input, output int32
	// degraded is what budgets at their end have changed, in bits.
	degraded Degradation
}

// Degradation is a set of what a budget at its end can change of a call.
type Degradation uint8

// What can be changed.
const (
	ModelChanged Degradation = 1 << iota
	PromptCut
	AnswerBounded
)

// String lists the changes as X-Degraded does.
func (d Degradation) String() string {
	var names []string
	for i, name := range [...]string{"model", "prompt", "max_tokens"} {
		if d>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// NewRecord makes a record, in one piece with room for decisions if there will be
// some.
func NewRecord(decisions bool) *Record {
	if !decisions {
		return new(Record)
	}
	both := new(struct {
		Record
		room Admission
	})
	both.Admission = &both.room
	return &both.Record
}

// Decisions is what was decided before the call, to be filled in.
func (r *Record) Decisions() *Admission {
	if r.Admission == nil {
		r.Admission = new(Admission)
	}
	return r.Admission
}

// Reserve notes the tokens that were reckoned with.
func (a *Admission) Reserve(input, output int64) {
	a.input, a.output = int32(min(input, math.MaxInt32)), int32(min(output, math.MaxInt32)) //nolint:gosec // they fit
}

// Degrade notes a change, and returns all that there were.
func (a *Admission) Degrade(d Degradation) Degradation {
	a.degraded |= d
	return a.degraded
}

// held are the names of the conditions that held.
func (a *Admission) held() (names []string) {
	if a.Held == 0 {
		return nil
	}
	for i, name := range *a.Conditions {
		if a.Held>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// AdmissionView is an Admission as operators see it.
type AdmissionView struct {
	Role       string   `json:"role,omitempty"`
	Conditions []string `json:"conditions,omitempty"`
	DeniedBy   string   `json:"denied_by,omitempty"`
	Limit      string   `json:"limit,omitempty"`
	// Input and Output are the tokens that were reserved.
	Input    int64  `json:"reserved_input_tokens"`
	Output   int64  `json:"reserved_output_tokens"`
	Degraded string `json:"degraded,omitempty"`
}

func (a *Admission) view() *AdmissionView {
	if a == nil || a.Role == "" && a.Denied == "" && a.Limit == "" && a.Held == 0 && a.input == 0 && a.output == 0 && a.degraded == 0 {
		return nil
	}
	return &AdmissionView{a.Role, a.held(), a.Denied, a.Limit, int64(a.input), int64(a.output), a.degraded.String()}
}

// decisions writes who is limited by what, and who decided, into the log.
func (l *line) decisions(r *Record) {
	l.optional("user", r.Who.User)
	l.optional("tier", r.Who.Tier)
	a := r.Admission
	if a == nil {
		return
	}
	l.optional("role", a.Role)
	if a.Held != 0 {
		l.str("conditions", strings.Join(a.held(), ","))
	}
	l.optional("denied_by", a.Denied)
	l.optional("limit", a.Limit)
	if a.degraded != 0 {
		l.str("degraded", a.degraded.String())
	}
}

// optional writes what is not empty.
func (l *line) optional(k, v string) {
	if v != "" {
		l.str(k, v)
	}
}
