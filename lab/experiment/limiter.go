package experiment

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/stream"
	"github.com/headgate-ai/headgate/internal/wire/openai"
	"github.com/headgate-ai/headgate/internal/wire/sse"
)

// cutHeader says at which byte a limiter is to act.
const cutHeader = "X-Cut-At"

// limiter relays streams up to a limit.
type limiter struct {
	relay *relay
	arm   string
}

// recordSize is the most that a TLS record holds.
const recordSize = 16 << 10

// ServeHTTP relays one stream and ends it in the arm's way.
func (x *limiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, _ := strconv.Atoi(r.Header.Get(cutHeader))
	resp, err := x.relay.call(r)
	if err != nil {
		http.Error(w, "the provider cannot be reached", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	switch x.arm {
	case "by-byte":
		copyAndFlush(w, resp.Body, at)
		<-r.Context().Done() // limited: nothing more is sent, and nothing is said
	case "by-record":
		copyAndFlush(w, resp.Body, max(1, at/recordSize)*recordSize)
	default:
		x.endBehindEvent(r.Context(), w, resp.Body, at)
	}
}

func copyAndFlush(w http.ResponseWriter, body io.Reader, n int) {
	_, _ = io.CopyN(w, body, int64(n))
	_ = http.NewResponseController(w).Flush()
}

// endBehindEvent is the gateway's way: the limit acts behind the event in which
// it is reached.
func (x *limiter) endBehindEvent(ctx context.Context, w http.ResponseWriter, body io.ReadCloser, at int) {
	cfg := stream.Default()
	plan := cfg.Compile()
	limit := int64(at) * cutTokens / (64 << 10)
	_, _ = stream.Copy(ctx, &plan, &stream.Events{
		Body: body, From: provider{body}, To: &client{w: w, rc: http.NewResponseController(w)}, In: openai.Dialect{}, Out: openai.Dialect{}, Op: llm.Chat,
		Tap: openai.Dialect{}.Tap(llm.Chat), OnFirst: func(time.Time) {},
		Allow: func(llm.Usage) int64 { return limit },
	})
}

// provider and client are a stream's two sides, as stream.Copy wants them.
type provider struct{ body io.Closer }

func (provider) FirstToken() {}

// Abort ends the exchange.
func (p provider) Abort(error) { _ = p.body.Close() }

// Why is the same for all errors: this provider has none on purpose.
func (provider) Why(_ context.Context, err error) error {
	return fault.Wrap(fault.UpstreamTruncated, "experiment", err)
}

type client struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	begun bool
}

// Write sends the head, too, when it is the first.
func (c *client) Write(p []byte) (int, error) {
	c.begun = true
	return c.w.Write(p)
}

// Flush hands on what was written.
func (c *client) Flush() error { return c.rc.Flush() }

// SetWriteDeadline bounds writes.
func (c *client) SetWriteDeadline(t time.Time) error { return c.rc.SetWriteDeadline(t) }

// Begun is whether there was a Write.
func (c *client) Begun() bool { return c.begun }

// cutVerdict is what a client's parser makes of one stream.
type cutVerdict struct {
	hung, failed bool
	length       bool          // the finish reason says that a limit was reached
	stall        time.Duration // from the last byte to knowing how the stream ended
}

// cutParser reads a stream and gives up after a silence.
type cutParser struct {
	cancel   context.CancelFunc
	patience time.Duration
	scan     sse.Scanner
	pending  []byte
	done     bool
	verdict  cutVerdict
}

func (p *cutParser) read(body io.Reader) cutVerdict {
	var gaveUp atomic.Bool
	silence := time.AfterFunc(p.patience, func() { gaveUp.Store(true); p.cancel() })
	defer silence.Stop()
	last := time.Now()
	for buf := make([]byte, 4096); ; {
		n, err := body.Read(buf)
		if n > 0 {
			silence.Reset(p.patience)
			last = time.Now()
			p.feed(buf[:n])
		}
		if err == nil && !p.done && !p.verdict.failed {
			continue
		}
		p.verdict.stall = time.Since(last)
		p.verdict.hung = !p.done && gaveUp.Load()
		p.verdict.failed = p.verdict.failed || !p.done
		return p.verdict
	}
}

func (p *cutParser) feed(b []byte) {
	p.pending = append(p.pending, b...)
	for ev, ok := p.scan.Next(p.pending); ok; ev, ok = p.scan.Next(p.pending) {
		if ev.HasData {
			p.event(ev.Data)
		}
		p.pending = p.pending[ev.Size:]
	}
}

func (p *cutParser) event(data []byte) {
	if string(data) == "[DONE]" {
		p.done = true
		return
	}
	var chunk struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
		}
	}
	if json.Unmarshal(data, &chunk) != nil {
		p.verdict.failed = true
		return
	}
	for _, c := range chunk.Choices {
		p.verdict.length = p.verdict.length || c.FinishReason == "length"
	}
}

// makeCertificate makes one for loopback, good for an hour.
func makeCertificate(now time.Time) (tls.Certificate, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, leaf, err
}
