package jsonspan

import "math"

// Int is the number v of raw as an int64. Numbers that are whole however they
// are written count, such as 5.0 and 1e3; false means that v is not a number,
// not whole or does not fit. No digit is lost on the way.
func Int(raw []byte, v Value) (int64, bool) {
	if v.Kind != KindNumber || !v.within(raw) || v.Start == v.End {
		return 0, false
	}
	b := raw[v.Start:v.End]
	if c := b[0]; c != '-' && c-'0' > 9 {
		return 0, false
	}
	if end, p := scanNumber(b, 0); p != fine || end != len(b) {
		return 0, false
	}
	negative := b[0] == '-'
	if negative {
		b = b[1:]
	}
	return signed(whole(b), negative)
}

// True is whether v is the literal true in raw.
func True(raw []byte, v Value) bool {
	return v.Kind == KindBool && string(v.Of(raw)) == "true"
}

const tooBig = math.MaxUint64 // more than any whole number that fits

func signed(n uint64, negative bool) (int64, bool) {
	switch {
	case negative && n <= 1<<63:
		return int64(-n), true // of 1<<63 this is the least int64
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// whole is the value of an unsigned number, tooBig if it is not whole or too
// large. It keeps the digits up to the last one that is not zero and, beside
// them, the power of ten they are to be multiplied by.
func whole(b []byte) uint64 {
	var n uint64
	zeros, power, point := 0, 0, false
	for i, c := range b {
		switch {
		case c == '.':
			point = true
			continue
		case c|0x20 == 'e':
			power += exponent(b[i+1:])
			return scale(n, power+zeros)
		}
		if point {
			power--
		}
		if c == '0' {
			zeros++
			continue
		}
		n = scale(n, zeros+1)
		if n > tooBig-9 {
			return tooBig
		}
		n += uint64(c - '0')
		zeros = 0
	}
	return scale(n, power+zeros)
}

// scale is n times ten to the power. n does not end in a zero, so a negative
// power never gives a whole number.
func scale(n uint64, power int) uint64 {
	if n == 0 {
		return 0
	}
	if power < 0 {
		return tooBig
	}
	for ; power > 0; power-- {
		if n > tooBig/10 {
			return tooBig
		}
		n *= 10
	}
	return n
}

// exponent reads what follows the e. It stops counting at a power that only
// tens of megabytes of zeros could make up for.
func exponent(b []byte) int {
	const most = 1 << 26
	e, negative := 0, b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	for _, c := range b {
		e = min(e*10+int(c-'0'), most)
	}
	if negative {
		return -e
	}
	return e
}
