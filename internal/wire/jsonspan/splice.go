package jsonspan

import "slices"

// Edit replaces the bytes of a span by New. An empty span inserts, an empty New
// deletes.
type Edit struct {
	Span
	New []byte
}

// Splice appends raw to dst with the edits made in it; all other bytes are
// copied as they are. It looks at no JSON: that the result is still valid is up
// to the edits. dst must not share memory with raw or the edits; if its capacity
// is enough nothing is allocated.
//
// The edits must lie in raw, be sorted by Start and not overlap. Otherwise the
// result is nil: half a patch must never look like a body.
func Splice(dst, raw []byte, edits []Edit) []byte {
	size, done := len(raw), 0
	for i := range edits {
		e := &edits[i]
		if e.Start < done || !e.within(raw) {
			return nil
		}
		size += len(e.New) - (e.End - e.Start)
		done = e.End
	}
	dst = slices.Grow(dst, size)
	done = 0
	for i := range edits {
		e := &edits[i]
		dst = append(append(dst, raw[done:e.Start]...), e.New...)
		done = e.End
	}
	return append(dst, raw[done:]...)
}
