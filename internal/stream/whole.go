package stream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
)

// maxWhole is the largest buffer worth keeping for the next answer.
const maxWhole = 64 << 10

var wholes = sync.Pool{New: func() any { return new([]byte) }}

// Free takes back what Whole has returned, when nobody looks at it any more.
func Free(b []byte) {
	if cap(b) <= maxWhole {
		b = b[:0]
		wholes.Put(&b)
	}
}

// firstWhole is how much is read at first of a body whose length is not known.
const firstWhole = 4 << 10

// Whole reads a body of at most the configured size, so that it can be looked
// at before any of it is sent. more is set where there is more than that; the
// rest is then still in the body. What is returned may be given to Free.
func Whole(ctx context.Context, p *Plan, body io.Reader, from Upstream, length int64) (b []byte, more bool, err error) {
	size := firstWhole
	if length >= 0 && length < int64(p.whole) {
		size = int(length) + 1 // one more, to see the end without growing
	}
	if b = *wholes.Get().(*[]byte); cap(b) < size {
		b = make([]byte, 0, size+size/8) // answers of one application are of like size
	}
	b = b[:0:min(cap(b), max(size, p.whole))]
	for {
		if len(b) == cap(b) {
			if len(b) >= p.whole {
				return b, true, nil
			}
			b = append(b, 0)[:len(b)]
		}
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, false, nil
		case err != nil:
			return b, false, from.Why(ctx, err)
		}
	}
}

// pipeChunk is the size of the reads of a body that passes unseen.
const pipeChunk = 32 << 10

// tailSize is how much of the end of such a body is kept, for its usage.
const tailSize = 4 << 10

// Pipe passes a body on as it comes, in which no events are known: audio, a
// page, an answer too large to hold. It flushes after every read, keeps the
// last few KiB, and bounds every write.
func Pipe(ctx context.Context, p *Plan, body io.Reader, from Upstream, to Client) (tail []byte, err error) {
	buf := make([]byte, pipeChunk)
	defer func() { _ = to.SetWriteDeadline(time.Time{}) }()
	for {
		n, err := body.Read(buf)
		if n > 0 {
			tail = keepTail(tail, buf[:n])
			if werr := p.send(to, buf[:n]); werr != nil {
				return tail, werr
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return tail, nil
		case err != nil:
			return tail, from.Why(ctx, err)
		}
	}
}

// send writes and flushes within the write timeout.
func (p *Plan) send(to Client, b []byte) error {
	began, bound := time.Now(), p.WriteTimeout(len(b))
	_ = to.SetWriteDeadline(began.Add(bound))
	_, err := to.Write(b)
	if err == nil {
		err = to.Flush()
	}
	switch {
	case err == nil:
		return nil
	case time.Since(began) >= bound:
		return fault.Wrap(fault.SlowClient, "stream.Pipe", err)
	}
	return fault.Wrap(fault.Canceled, "stream.Pipe", err)
}

func keepTail(tail, p []byte) []byte {
	if len(p) >= tailSize {
		return append(tail[:0], p[len(p)-tailSize:]...)
	}
	if over := len(tail) + len(p) - tailSize; over > 0 {
		tail = append(tail[:0], tail[over:]...)
	}
	return append(tail, p...)
}
