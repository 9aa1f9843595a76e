package meter

import (
	"errors"
	"strconv"
	"strings"
)

// Rate is a price in USD per million tokens, such as 2.5. It is kept as a whole
// number of pico-dollars (10⁻¹² USD) per token, so six decimals are exact. The
// zero Rate is one that was not written, which differs from a price of 0.
type Rate struct {
	pico  int64
	given bool
}

const (
	decimals = 6 // of a Rate
	// maxRate keeps out typing mistakes, and sums far from where 128 bits end.
	maxRate = 1_000_000 // USD per million tokens: a dollar a token
)

var (
	errRate     = errors.New("not a price; write dollars per million tokens as a decimal number, such as 2.5")
	errDecimals = errors.New("has too many decimals; a price in dollars per million tokens has at most six, such as 0.000125")
	errTooHigh  = errors.New("is above 1000000 dollars per million tokens; write the price of a million tokens in dollars, such as 2.5")
)

// ParseRate reads a decimal number of dollars per million tokens, exactly.
func ParseRate(s string) (Rate, error) {
	whole, fraction, point := strings.Cut(s, ".")
	if !digits(whole) || point && !digits(fraction) {
		return Rate{}, errRate
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > decimals {
		return Rate{}, errDecimals
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", decimals-len(fraction)), 10, 64)
	if err != nil || n > maxRate*1e6 {
		return Rate{}, errTooHigh
	}
	return Rate{n, true}, nil
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// UnmarshalText reads the written form.
func (r *Rate) UnmarshalText(b []byte) (err error) {
	*r, err = ParseRate(string(b))
	return err
}

// MarshalText gives the written form.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String is the written form, "" for a price that was not written.
func (r Rate) String() string {
	if !r.given {
		return ""
	}
	s := strconv.FormatInt(r.pico/1e6, 10)
	if rest := r.pico % 1e6; rest != 0 {
		s += "." + strings.TrimRight(strconv.FormatInt(1e6+rest, 10)[1:], "0")
	}
	return s
}

// IsZero is whether no price was written.
func (r Rate) IsZero() bool { return !r.given }

// or is r, or the other where r was not written.
func (r Rate) or(other Rate) Rate {
	if r.given {
		return r
	}
	return other
}
