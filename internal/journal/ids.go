package journal

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// The length of a version 00 traceparent: 00-<32>-<16>-<2>.
const traceparentLen = 55

// parseTraceparent takes the caller's trace from a W3C traceparent header
// (https://www.w3.org/TR/trace-context/). It is strict: anything that the
// recommendation calls invalid starts a new trace. Versions beyond 00 are read
// as 00 where they begin like it, as the recommendation asks.
func parseTraceparent(s string, r *Record) bool {
	if len(s) < traceparentLen || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	var version, flags [1]byte
	var trace [16]byte
	var parent [8]byte
	if !lowerHex(version[:], s[:2]) || version[0] == 0xff {
		return false
	}
	if len(s) > traceparentLen && (version[0] == 0 || s[traceparentLen] != '-') {
		return false
	}
	if !lowerHex(trace[:], s[3:35]) || !lowerHex(parent[:], s[36:52]) || !lowerHex(flags[:], s[53:55]) {
		return false
	}
	if trace == [16]byte{} || parent == [8]byte{} {
		return false
	}
	r.Trace, r.Parent, r.Sampled = trace, parent, flags[0]&1 != 0
	return true
}

// lowerHex decodes hexadecimal digits; capitals are not valid in traceparent.
func lowerHex(dst []byte, s string) bool {
	for i := range dst {
		hi, lo := nibble(s[2*i]), nibble(s[2*i+1])
		if hi|lo > 0xf {
			return false
		}
		dst[i] = hi<<4 | lo
	}
	return true
}

func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// mintTrace begins a new trace. The package-level source of math/rand/v2 is a
// ChaCha8 per thread, seeded by the operating system: unpredictable enough for
// an id, and without a lock.
func mintTrace(r *Record) {
	binary.BigEndian.PutUint64(r.Trace[:8], rand.Uint64())
	binary.BigEndian.PutUint64(r.Trace[8:], nonZero())
	r.Parent = [8]byte{}
}

func mintSpan() (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], nonZero())
	return id
}

func nonZero() uint64 {
	for {
		if v := rand.Uint64(); v != 0 {
			return v
		}
	}
}

// tail is the part of a trace id that sampling looks at: 63 bits of the second
// half, as OpenTelemetry's ratio sampler does, so that gateways in a row agree.
func tail(trace [16]byte) uint64 { return binary.BigEndian.Uint64(trace[8:]) >> 1 }

// AppendTraceparent appends the traceparent header for the upstream: the
// record's trace with UpstreamSpan as the caller.
func AppendTraceparent(dst []byte, r *Record) []byte {
	dst = append(dst, "00-"...)
	dst = hex.AppendEncode(dst, r.Trace[:])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, r.UpstreamSpan[:])
	if r.Sampled {
		return append(dst, "-01"...)
	}
	return append(dst, "-00"...)
}
