package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/headgate-ai/headgate/internal/upstream/h1"
)

// client posts the bodies of a run to its endpoint.
type client interface {
	// post sends a body and returns the answer when its head has come. It marks
	// phases as they begin and end; those of making a connection are marked by
	// the trace that ctx has.
	post(ctx context.Context, body []byte, p *phases) (*http.Response, error)
	CloseIdleConnections()
}

// idleTimeout is how long an unused connection is kept.
const idleTimeout = 90 * time.Second

// newClient chooses the client. Calls by plain HTTP/1.1 go through our own,
// which needs one goroutine an exchange and wakes no other: on a small machine
// what the generator costs is taken from whom it measures, and what it waits for
// its own goroutines is charged to them.
func newClient(c *Config, m *maker) client {
	if m.url.Scheme == "http" && !c.HTTP2 && m.lines != nil {
		most := 0
		if c.Fresh {
			most = -1
		}
		return &ownClient{m, h1.New(h1.Config{MaxIdle: most, IdleTimeout: idleTimeout})}
	}
	return &stdClient{m, newTransport(c)}
}

// stdClient is net/http's.
type stdClient struct {
	m *maker
	*http.Transport
}

// newTransport makes a transport whose pool holds whatever the run needs.
func newTransport(c *Config) *http.Transport {
	t := &http.Transport{
		DisableCompression: true, DisableKeepAlives: c.Fresh, MaxIdleConnsPerHost: maxOpen, IdleConnTimeout: idleTimeout,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: c.Insecure}, //nolint:gosec // asked for by name
		Protocols:       new(http.Protocols),
	}
	t.Protocols.SetHTTP1(!c.HTTP2)
	t.Protocols.SetHTTP2(c.HTTP2)
	t.Protocols.SetUnencryptedHTTP2(c.HTTP2)
	return t
}

func (c *stdClient) post(ctx context.Context, body []byte, _ *phases) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.m.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = c.m.header.Clone()
	return c.RoundTrip(r) // the trace marks all phases
}

// ownClient is the gateway's.
type ownClient struct {
	m *maker
	*h1.Transport
}

func (c *ownClient) post(ctx context.Context, body []byte, p *phases) (*http.Response, error) {
	u := c.m.url
	call := h1.Call{
		Scheme: u.Scheme, Host: u.Host, Method: http.MethodPost, Path: u.RequestURI(), Fields: c.m.lines,
		Body: newMemory(body), Length: int64(len(body)),
	}
	var info h1.Info
	resp, err := c.Send(ctx, &call, &info)
	p.connected(info.Connected, info.Reused)
	if err == nil {
		p.mark(&p.firstByte)
	}
	return resp, err
}

// memory is a body that our own client writes at once.
type memory struct {
	*bytes.Reader
	b []byte
}

func newMemory(b []byte) memory { return memory{bytes.NewReader(b), b} }

func (memory) Close() error { return nil }

// Parts implements h1.Memory.
func (m memory) Parts() (a, b []byte) { return m.b, nil }

// lines are the field lines of every request.
type lines []byte

// AppendFields implements h1.Fields.
func (l lines) AppendFields(b []byte) ([]byte, error) { return append(b, l...), nil }

// framing are the fields that say how a request is framed and its connection
// used, and that our own client therefore writes itself or not at all.
var framing = []string{"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// linesOf are nil where a header must be left to net/http.
func linesOf(h http.Header) (lines, error) {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if slices.Contains(framing, http.CanonicalHeaderKey(name)) {
			return nil, nil
		}
		for _, v := range h[name] {
			var err error
			if b, err = h1.AppendField(b, name, v); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}
