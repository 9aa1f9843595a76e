package setting

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rate is so many in a period, written as 100/s, 600/min, 10000/h or
// 1000000/day. The zero Rate is none.
type Rate struct {
	Count  int64
	Period time.Duration
}

var periods = []struct {
	name   string
	period time.Duration
}{{"s", time.Second}, {"min", time.Minute}, {"h", time.Hour}, {"day", 24 * time.Hour}}

// UnmarshalText parses the written form.
func (r *Rate) UnmarshalText(b []byte) error {
	count, name, _ := strings.Cut(string(b), "/")
	n, err := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
	for _, p := range periods {
		if p.name == strings.TrimSpace(name) && err == nil && n > 0 && n <= MaxCount {
			*r = Rate{n, p.period}
			return nil
		}
	}
	return fmt.Errorf("%q is not a rate; write a whole number of one or more and its period, such as 100/s, 600/min, 10000/h or 1000000/day", b)
}

// MaxCount is the largest number of a rate. It keeps sums of counts far from where they would overflow.
const MaxCount = math.MaxInt64 >> 16

// MarshalText gives the written form.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String is the written form, "" for none.
func (r Rate) String() string {
	if r.IsZero() {
		return ""
	}
	for _, p := range periods {
		if p.period == r.Period {
			return strconv.FormatInt(r.Count, 10) + "/" + p.name
		}
	}
	return strconv.FormatInt(r.Count, 10) + "/" + r.Period.String()
}

// IsZero is whether there is none.
func (r Rate) IsZero() bool { return r.Count == 0 }
