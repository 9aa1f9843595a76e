package upstream

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
)

// sent is the body of a request on its way. Its Reader is nil where there is none.
type sent struct {
	io.Reader
	// front and rest are the bytes, where they are in memory: what holds edits,
	// and what is as it came.
	front, rest []byte
	unread      unread
	list        [4]llm.Edit
	edited      *[]byte // where front is a copy of ours
	length      int64
	open        atomic.Int32 // readers that a transport has not closed yet
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
		s.Reader = wire.ApplyStream(io.MultiReader(bytes.NewReader(call.Raw), call.Rest), list)
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
	s.unread = unread{s.front, s.rest}
	s.Reader, s.length = &s.unread, int64(len(s.front)+len(s.rest))
}

// handOver is the body as transports take it, nil where there is none.
func (s *sent) handOver() (body io.ReadCloser, length int64) {
	if s.Reader == nil {
		return nil, 0
	}
	return s, s.length
}

// inMemory is whether the body can be had again.
func (s *sent) inMemory() bool { return s.Reader == &s.unread }

// unread is what a reader of two parts has not given yet.
type unread struct{ front, rest []byte }

// Read implements io.Reader.
func (u *unread) Read(p []byte) (int, error) {
	if len(u.front) == 0 {
		u.front, u.rest = u.rest, nil
	}
	if len(u.front) == 0 {
		return 0, io.EOF
	}
	n := copy(p, u.front)
	u.front = u.front[n:]
	return n, nil
}

// Parts is the body where it is in memory, so that a transport can send it
// without copying.
func (s *sent) Parts() (front, rest []byte) { return s.front, s.rest }

// Close is called by the transport when it has done with the body.
func (s *sent) Close() error {
	s.open.Add(-1)
	return nil
}

// recycle gives back what is ours of the body, if no transport reads it.
func (s *sent) recycle() bool {
	if s.open.Load() > 0 {
		return false
	}
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

// again gives the transport the body once more, for a pooled connection that
// turned out dead before anything was sent.
func (s *sent) again() (io.ReadCloser, error) {
	s.open.Add(1)
	return resent{&unread{s.front, s.rest}, s}, nil
}

// resent is a body that is given to the transport once more.
type resent struct {
	io.Reader
	body *sent
}

func (r resent) Parts() (front, rest []byte) { return r.body.Parts() }
func (r resent) Close() error                { return r.body.Close() }
