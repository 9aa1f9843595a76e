package upstream

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
)

// sent is the body of a request on its way.
type sent struct {
	// front and rest are the bytes, where they are in memory: what holds edits,
	// and what is as it came.
	front, rest []byte
	first       reading   // of them
	flow        io.Reader // the body where it is not in memory, nil where there is none
	list        [4]llm.Edit
	edited      *[]byte // where front is a copy of ours
	length      int64
	open        atomic.Int32 // readers of which a transport may want more
}

// begin makes s the body of a call.
func (s *sent) begin(q *Request) {
	call := q.Call
	if call.Raw == nil && call.Rest == nil {
		return
	}
	list := q.Out.Edits(s.list[:0], call, q.Model)
	s.open.Store(1)
	switch {
	case call.Rest != nil:
		s.flow = wire.ApplyStream(io.MultiReader(bytes.NewReader(call.Raw), call.Rest), list)
		s.length = call.Length
		if s.length >= 0 {
			s.length += int64(wire.Grown(list))
		}
		return
	case len(list) == 0:
		s.rest = call.Raw
	default:
		s.edit(call.Raw, list)
	}
	s.length = int64(len(s.front) + len(s.rest))
	s.first.begin(s)
}

// handOver is the body as transports take it, nil where there is none.
func (s *sent) handOver() (body io.ReadCloser, length int64) {
	switch {
	case s.inMemory():
		return &s.first, s.length
	case s.flow != nil:
		return flowing{s}, s.length
	}
	return nil, 0
}

// inMemory is whether the body can be had again.
func (s *sent) inMemory() bool { return s.first.of != nil }

// flowing is a body that is not in memory.
type flowing struct{ *sent }

func (f flowing) Read(p []byte) (int, error) { return f.flow.Read(p) }

func (f flowing) Close() error {
	f.open.Add(-1)
	return nil
}

// reading reads a body in memory, once. It is over when all has been read, or when
// the transport closes it: that of HTTP/2 does so no sooner than the answer is over.
type reading struct {
	of          *sent
	front, rest []byte // what has not been read
	over        atomic.Bool
}

func (r *reading) begin(s *sent) { r.of, r.front, r.rest = s, s.front, s.rest }

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	if len(r.front) == 0 {
		r.front, r.rest = r.rest, nil
	}
	n := copy(p, r.front)
	if r.front = r.front[n:]; len(r.front)+len(r.rest) > 0 {
		return n, nil
	}
	r.front = nil
	r.end()
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Parts is the body for a transport that sends it without copying. It is not read
// then.
func (r *reading) Parts() (front, rest []byte) {
	r.front, r.rest = nil, nil
	return r.of.front, r.of.rest
}

// Close is called by the transport when it has done with the body.
func (r *reading) Close() error {
	r.end()
	return nil
}

func (r *reading) end() {
	if !r.over.Swap(true) {
		r.of.open.Add(-1)
	}
}

// again gives the transport the body once more, for a pooled connection that
// turned out dead before anything was sent.
func (s *sent) again() (io.ReadCloser, error) {
	s.open.Add(1)
	r := &reading{}
	r.begin(s)
	return r, nil
}

// recycle gives back what is ours of the body and forgets the rest, if no transport
// reads it.
func (s *sent) recycle() bool {
	if s.open.Load() > 0 {
		return false
	}
	s.front, s.rest = nil, nil
	if s.edited != nil && cap(*s.edited) <= maxPooled {
		edits.Put(s.edited)
	}
	s.edited = nil
	return true
}

// edits are the buffers of what is edited in bodies.
var edits = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest buffer worth keeping.
const maxPooled = 256 << 10

// edit copies the body up to behind the last edit. That is mostly the name of
// the model, near the beginning, and what follows is most of the body.
func (s *sent) edit(raw []byte, list []llm.Edit) {
	s.edited = edits.Get().(*[]byte)
	b, end := (*s.edited)[:0], list[len(list)-1].End
	if n := end + wire.Grown(list); cap(b) < n {
		b = make([]byte, 0, n+n/8)
	}
	s.front, s.rest = wire.Apply(b, raw[:end], list), raw[end:]
	*s.edited = s.front
}
