package llm

import (
	"errors"
	"strconv"
	"strings"
)

// Money is an amount in nano-US-dollars, 10⁻⁹ USD: a whole number, so that sums
// are exact. It reaches from -9.2 to 9.2 thousand million dollars.
type Money int64

// The units of Money.
const (
	NanoUSD Money = 1
	USD     Money = 1e9
)

// String is the amount in dollars, exactly: "12.5 USD", "0.000002 USD".
func (m Money) String() string { return string(m.append(nil)) + " USD" }

// MarshalText is the amount in dollars as a decimal number.
func (m Money) MarshalText() ([]byte, error) { return m.append(nil), nil }

// MarshalJSON is the amount in dollars as a number, which many readers take for
// a binary fraction: the digits are exact.
func (m Money) MarshalJSON() ([]byte, error) { return m.append(nil), nil }

// append writes the amount with as many decimals as it needs.
func (m Money) append(dst []byte) []byte {
	u := uint64(m)
	if m < 0 {
		dst, u = append(dst, '-'), -u
	}
	dst = strconv.AppendUint(dst, u/uint64(USD), 10)
	rest := u % uint64(USD)
	if rest == 0 {
		return dst
	}
	digits := strconv.FormatUint(uint64(USD)+rest, 10)[1:]
	return append(append(dst, '.'), strings.TrimRight(digits, "0")...)
}

var errMoney = errors.New("not an amount of dollars; write a decimal number with at most nine decimals, such as 500 or 0.25")

// ParseUSD reads a decimal number of dollars with at most nine decimals.
func ParseUSD(s string) (Money, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	if len(fraction) > 9 || point && fraction == "" || !allDigits(whole+fraction) {
		return 0, errMoney
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 9-len(fraction)), 10, 64)
	if err != nil || whole == "" {
		return 0, errMoney
	}
	if negative {
		n = -n
	}
	return Money(n), nil
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// UnmarshalText reads a decimal number of dollars.
func (m *Money) UnmarshalText(b []byte) (err error) {
	*m, err = ParseUSD(string(b))
	return err
}

// Charge is what one call cost one budget.
type Charge struct {
	// Scope names the budget, its unit and for whom it is kept: opaque to all
	// but the room quota, at most 512 bytes.
	Scope string
	// Period is when the budget's period began, in seconds since 1970.
	Period int64
	// Amount is in the budget's unit: tokens, or nano-dollars.
	Amount int64
}
