package sse

import (
	"encoding/binary"
	"math/bits"
)

// lineEnd returns the offset of the first LF or CR in b from i on, or len(b).
//
// It looks at eight bytes at a time. A subtraction borrows only out of a byte
// that matches, so a false match can only lie above a true one and the lowest
// match is always true.
func lineEnd(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		lf, cr := x^('\n'*ones), x^('\r'*ones)
		if hit := ((lf-ones)&^lf | (cr-ones)&^cr) & highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for i < len(b) && b[i] != '\n' && b[i] != '\r' {
		i++
	}
	return i
}
