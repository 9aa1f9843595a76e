package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// phases are the moments of one exchange; those that did not happen are zero.
type phases struct {
	// mu is there because a dial that lost the race to an idle connection goes
	// on, and calls back, while the exchange does.
	mu                                           sync.Mutex
	dnsStart, dnsDone, connectStart, connectDone time.Time
	tlsStart, tlsDone, gotConn, firstByte        time.Time
	reused                                       bool
}

func (p *phases) mark(t *time.Time) {
	now := time.Now()
	p.mu.Lock()
	*t = now
	p.mu.Unlock()
}

// connected notes the connection that an exchange was given, if it was.
func (p *phases) connected(at time.Time, reused bool) {
	p.mu.Lock()
	p.gotConn, p.reused = at, reused
	p.mu.Unlock()
}

func (p *phases) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { p.mark(&p.dnsStart) },
		DNSDone:              func(httptrace.DNSDoneInfo) { p.mark(&p.dnsDone) },
		ConnectStart:         func(string, string) { p.mark(&p.connectStart) },
		ConnectDone:          func(string, string, error) { p.mark(&p.connectDone) },
		TLSHandshakeStart:    func() { p.mark(&p.tlsStart) },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { p.mark(&p.tlsDone) },
		GotConn:              func(i httptrace.GotConnInfo) { p.connected(time.Now(), i.Reused) },
		GotFirstResponseByte: func() { p.mark(&p.firstByte) },
	}
}

// call is one request on its way.
type call struct {
	r        *runner
	due      time.Time
	measured bool
	phases   phases
	verifier *verifier // of a stream
	bytes    int64
	status   int
}

// do makes one request and accounts for it.
func (r *runner) do(ctx context.Context, n, session int, due time.Time) {
	c := &call{r: r, due: due, measured: due.Sub(r.start) >= r.cfg.Warmup}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	r.tally.open.Add(1)
	defer r.tally.open.Add(-1)
	sent := time.Now()
	kind, detail := c.exchange(httptrace.WithClientTrace(ctx, c.phases.trace()), n, session)
	if kind != "" && r.stopped() {
		r.tally.aborted.Add(1)
		return // the run was broken off, not the request
	}
	if c.measured {
		r.tally.record(c, sent, time.Now(), kind, detail)
	}
}

func (c *call) exchange(ctx context.Context, n, session int) (Kind, string) {
	resp, err := c.r.client.post(ctx, c.r.maker.body(n, session), &c.phases)
	if err != nil {
		return failure(ctx, err)
	}
	defer resp.Body.Close()
	c.status = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		return Status, fmt.Sprintf("%d %s", resp.StatusCode, cut(body))
	}
	if c.r.cfg.Stream && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return c.readStream(ctx, resp.Body)
	}
	return c.readWhole(ctx, resp.Body)
}

// failure tells a request that ran out of time from one whose connection broke.
func failure(ctx context.Context, err error) (Kind, string) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Timeout, "no answer in time"
	}
	return Transport, err.Error()
}

var readBuffers = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

func (c *call) readStream(ctx context.Context, body io.Reader) (Kind, string) {
	c.verifier = newVerifier(c.r.maker.dialect, c.token)
	buf := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buf)
	for {
		n, err := body.Read(*buf)
		if n > 0 {
			c.bytes += int64(n)
			c.verifier.feed((*buf)[:n], time.Now())
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return c.verifier.verdict(nil)
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return Timeout, "the stream did not end in time"
		default:
			return c.verifier.verdict(err)
		}
	}
}

// token counts at once: a stream may last as long as the run.
func (c *call) token(gap time.Duration, delays []time.Duration) {
	c.r.series.tokens(max(1, len(delays)))
	if !c.measured {
		return
	}
	t := c.r.tally
	t.tokens.Add(int64(max(1, len(delays))))
	if gap >= 0 {
		t.gaps.Add(gap)
	}
	for _, d := range delays {
		t.added.Add(d)
	}
}

// maxAnswer bounds an answer in one piece.
const maxAnswer = 256 << 20

func (c *call) readWhole(ctx context.Context, body io.Reader) (Kind, string) {
	b, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	c.bytes = int64(len(b))
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Timeout, "the answer did not end in time"
	case err != nil:
		return Truncated, err.Error()
	case c.r.cfg.Stream:
		return Malformed, "not an event stream: " + cut(b)
	case jsonspan.Valid(b, jsonspan.DefaultDepth) != nil:
		return Malformed, cut(b)
	}
	return "", ""
}
