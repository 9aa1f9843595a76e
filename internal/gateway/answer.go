package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/stream"
	"github.com/headgate-ai/headgate/internal/upstream"
	"github.com/headgate-ai/headgate/internal/wire"
)

// answer is a provider's response on its way to the client.
type answer struct {
	ctx     context.Context
	snap    *Snapshot
	journal *journal.Room
	x       *edge.Exchange
	rec     *journal.Record
	call    *llm.Call
	acct    *account
	reply   *upstream.Reply
	out     wire.Outbound

	encoded bool // the body is gzip as the client asked for it
	room    [192]byte
	told    bool // the first of it has come, and the provider's pulse knows
}

// carry passes the response on in the way that its status and type call for.
func (a *answer) carry() error {
	a.rec.UpstreamRaw = a.reply.StatusCode
	media := mediaType(wire.First(a.reply.Header, "Content-Type"))
	if err := a.decodeBody(media); err != nil {
		return err
	}
	switch {
	case a.reply.StatusCode >= 400:
		return a.refused()
	case a.reply.StatusCode >= 300:
		return a.redirected()
	case media == "text/event-stream" || media == "" && a.call.WantsStream:
		return a.events()
	case media == "text/html":
		return fault.New(fault.UpstreamMalformed, "gateway.answer", "The model's provider sent a web page instead of an answer.")
	case media == "application/json" || strings.HasSuffix(media, "+json") || media == "" || a.jsonExpected():
		return a.whole()
	}
	return a.pipe(nil)
}

// mediaType is the media type of a Content-Type, without its parameters. The
// two that nearly every answer has are not parsed.
func mediaType(header string) string {
	switch header {
	case "application/json", "text/event-stream":
		return header
	}
	media, _, _ := mime.ParseMediaType(header)
	return media
}

// jsonExpected is whether the operation answers with JSON whatever the content
// type says; some compatible servers get it wrong.
func (a *answer) jsonExpected() bool {
	switch a.call.Op {
	case llm.Speech, llm.Transcriptions, llm.Images:
		return false
	}
	return true
}

// decodeBody undoes a content coding, except where the client asked for gzip
// and gets a whole answer.
func (a *answer) decodeBody(media string) error {
	switch coding := strings.ToLower(wire.First(a.reply.Header, "Content-Encoding")); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		if a.encoded = media == "application/json" && a.reply.StatusCode < 300 && takesGzip(a.call.Header) && !a.call.WantsStream; !a.encoded {
			a.reply.Body = upstream.Gunzip(a.reply.Body)
			a.reply.ContentLength = -1
		}
	default:
		return fault.New(fault.UpstreamMalformed, "gateway.answer", "The model's provider sent an answer in an encoding that was not asked for.")
	}
	return nil
}

// maxRefusal bounds how much of a provider's error answer is read.
const maxRefusal = 1 << 20

// refused turns a provider's error answer into a fault.
func (a *answer) refused() error {
	body, err := io.ReadAll(io.LimitReader(a.reply.Body, maxRefusal))
	if err != nil && a.ctx.Err() != nil {
		return a.reply.Why(a.ctx, err)
	}
	body = a.reply.Provider.Redact(body)
	f := a.out.Refusal(a.reply.StatusCode, a.reply.Header, body)
	a.rec.Mark(journal.FirstToken, time.Now())
	h := wire.Header(a.x.ResponseHeader())
	upstream.CopyHeader(h, a.reply.Header, false)
	a.target(h)
	return f
}

// redirected passes a redirect on and follows it nowhere. Like an error it is
// the provider's words, not a model's, and so may hold what must not be seen.
func (a *answer) redirected() error {
	body, err := io.ReadAll(io.LimitReader(a.reply.Body, maxRefusal))
	if err != nil {
		return a.reply.Why(a.ctx, err)
	}
	body = a.reply.Provider.Redact(body)
	a.rec.Mark(journal.FirstToken, time.Now())
	a.x.Answer(a.reply.StatusCode, edge.Buffered, func(h wire.Fields) {
		a.head(h, false)
		h.Put("Content-Length", strconv.Itoa(len(body)))
		if to := wire.First(a.reply.Header, "Location"); to != "" {
			h.Put("Location", a.reply.Provider.RedactURL(to))
		}
	})
	err = a.write(body)
	a.rec.Mark(journal.Relay, time.Now())
	return err
}

// letGo gives the request's bytes back: prompts are long, and a stream may last for
// minutes. What they count as may be asked for later, so it is asked for now.
func (a *answer) letGo() {
	if a.call.Form || a.call.Rest != nil {
		return
	}
	a.acct.prompt()
	if a.reply.Recycle() {
		a.x.Release()
	}
}

// events relays an event stream.
func (a *answer) events() error {
	a.letGo()
	a.x.Answer(a.reply.StatusCode, edge.Streaming, func(h wire.Fields) {
		a.head(h, true)
		h.Put("Cache-Control", "no-cache")
		h.Put("X-Accel-Buffering", "no")
	})
	a.journal.StreamOpened()
	defer a.journal.StreamClosed()
	receipt, err := stream.Copy(a.ctx, &a.snap.Stream, &stream.Events{
		Body: a.reply.Body, From: a.reply, To: a.x, In: a.x.Inbound, Out: a.out, Op: a.call.Op, Tap: a.out.Tap(a.call.Op),
		HideUsage: !a.call.IncludeUsage, Idle: a.reply.Provider.Idle(), Leaks: a.reply.Provider.Leaks,
		OnFirst: a.first,
		OnEnd:   func(u llm.Usage) { a.acct.settle(a.usage(u), nil) },
		Allow:   a.acct.allow(),
		Prompt:  a.acct.prompt(),
	})
	a.rec.Mark(journal.Relay, time.Now())
	a.rec.Stream, a.rec.Usage, a.rec.FinishReason = true, a.usage(receipt.Usage), receipt.FinishReason
	a.rec.Events, a.rec.Gaps, a.rec.BackPressure = receipt.Events, journal.Gaps(receipt.Gaps), receipt.BackPressure
	a.rec.AheadWait = receipt.Ahead
	if f, passed := stream.Passed(err); passed {
		a.rec.FaultTold = true // the provider's own error event has reached the client
		return f
	}
	if err != nil {
		return a.clean(fault.Of(err)) // it may be the provider's words
	}
	a.trailers()
	return nil
}

// first notes when the first content came.
func (a *answer) first(now time.Time) {
	a.rec.Mark(journal.FirstToken, now)
	a.answered(now)
}

// usage puts an estimate of the prompt where the provider never reported any.
func (a *answer) usage(u llm.Usage) llm.Usage {
	if u.Estimated && u.Input == 0 {
		u.Input = a.acct.prompt()
	}
	return u
}

// whole checks a JSON answer before any of it is sent.
func (a *answer) whole() error {
	body, more, err := stream.Whole(a.ctx, &a.snap.Stream, a.reply.Body, a.reply, a.reply.ContentLength)
	now := time.Now()
	a.rec.Mark(journal.FirstToken, now)
	if err == nil {
		a.answered(now)
	}
	switch {
	case err != nil:
		return err
	case more:
		return a.pipe(body)
	}
	defer stream.Free(body)
	text := body
	if a.encoded {
		if text, err = inflate(body, 8*len(body)+1<<20); err != nil {
			return fault.Wrap(fault.UpstreamMalformed, "gateway.answer", err)
		}
	}
	read := a.out.Answer(a.call.Op, text)
	a.rec.Usage, a.rec.FinishReason = read.Usage, read.FinishReason
	if read.Fault != nil {
		return a.clean(read.Fault)
	}
	a.rec.Usage = a.acct.billed(read.Usage, text)
	a.acct.settle(a.rec.Usage, nil)
	a.x.Answer(a.reply.StatusCode, edge.Buffered, func(h wire.Fields) {
		a.head(h, false)
		h.Put("Content-Length", strconv.Itoa(len(body)))
	})
	err = a.write(body)
	a.rec.Mark(journal.Relay, time.Now())
	return err
}

// clean takes what must not be seen out of a provider's message.
func (a *answer) clean(f *fault.Error) error {
	said := string(a.reply.Provider.Redact([]byte(f.Public)))
	if said == f.Public {
		return f
	}
	own := *f // a fault may be shared: that of a shutdown ends many requests
	own.Public = said
	return &own
}

// largeWrite is from where on a write can wait for the client.
const largeWrite = 16 << 10

func (a *answer) write(body []byte) error {
	if len(body) > largeWrite {
		_ = a.x.SetWriteDeadline(time.Now().Add(a.snap.Stream.WriteTimeout(len(body))))
		defer func() { _ = a.x.SetWriteDeadline(time.Time{}) }()
	}
	_, err := a.x.Write(body)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(fault.SlowClient, "gateway.answer", err)
	case err != nil:
		return fault.Wrap(fault.Canceled, "gateway.answer", err)
	}
	return nil
}

// pipe passes a body on as it comes, behind what has been read of it already.
func (a *answer) pipe(begun []byte) error {
	a.x.Answer(a.reply.StatusCode, edge.Buffered, func(h wire.Fields) {
		a.head(h, false)
		if n := a.reply.ContentLength; n >= 0 {
			h.Put("Content-Length", strconv.FormatInt(n, 10))
		}
	})
	a.answered(time.Now())
	body := io.Reader(a.reply.Body)
	if begun != nil {
		body = io.MultiReader(bytes.NewReader(begun), body)
	}
	tail, err := stream.Pipe(a.ctx, &a.snap.Stream, body, a.reply, a.x)
	a.x.Begin()
	a.rec.Mark(journal.Relay, time.Now())
	a.rec.Usage = a.piped(tail)
	return err
}

// piped is the usage of an answer of which the end alone was kept. Where that
// reports none, it is a sample of the text that was delivered.
func (a *answer) piped(tail []byte) llm.Usage {
	if u, ok := a.out.UsageTail(a.call.Op, tail); ok && !a.encoded {
		return u
	}
	if len(tail) == 0 {
		return llm.Usage{}
	}
	u := a.acct.billed(llm.Usage{}, tail)
	u.Output = int64(float64(u.Output) * float64(a.x.Written()) / float64(len(tail)))
	return u
}

// head fills in the response's headers; it is called once, before the status
// is written.
func (a *answer) head(h wire.Fields, events bool) {
	upstream.CopyHeader(h, a.reply.Header, events)
	switch ct := wire.First(a.reply.Header, "Content-Type"); {
	case ct != "":
		h.Put("Content-Type", ct)
	case a.call.WantsStream:
		h.Put("Content-Type", "text/event-stream")
	default:
		h.Put("Content-Type", "application/json")
	}
	if a.encoded {
		h.Put("Content-Encoding", "gzip")
		h.Put("Vary", "Accept-Encoding")
	}
	a.target(h)
}

// target says who answered and how long the parts took.
func (a *answer) target(h wire.Fields) {
	h.Put("X-Headgate-Target", headerSafe(a.rec.Target))
	h.PutBytes("X-Headgate-Attempts", strconv.AppendInt(a.room[:0], int64(a.rec.Attempts), 10))
	h.PutBytes("Server-Timing", a.rec.AppendServerTiming(a.room[:0]))
}

// headerSafe keeps a client's model name from breaking a header.
func headerSafe(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, s)
}

// trailers passes the provider's trailers on.
func (a *answer) trailers() {
	for name, values := range a.reply.Trailer {
		if len(values) > 0 {
			a.x.Trailer(name, values[0])
		}
	}
}

// inflate undoes gzip, up to a size that no honest answer exceeds.
func inflate(b []byte, limit int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, int64(limit)))
}
