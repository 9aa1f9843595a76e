package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/upstream/h1"
)

// carrier sends a call and waits for the response's head. It notes in the reply
// when it had a connection, and whether that was used before.
type carrier interface {
	carry(r *Reply, q *Request) (*http.Response, error)
	CloseIdleConnections()
}

// newCarrier chooses the transport: our own client for HTTP/1.1, as it costs
// half of what net/http's does and never takes bytes that a provider sent behind
// one answer for the next one; net/http where the provider may speak HTTP/2, and
// wherever a proxy is to be used.
func newCarrier(key poolKey) carrier {
	secure := !strings.HasPrefix(key.base, "http://")
	switch {
	case key.transport == transportStd || proxied(key.base):
		return newStandard(key)
	case key.transport == transportH1 || !secure:
		return newOwn(key)
	}
	return &agreed{standardCarrier: newStandard(key), own: newOwn(key)}
}

// proxied is whether the environment names a proxy for this address.
func proxied(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return true // let net/http say what is wrong
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	return proxy != nil || err != nil
}

func dialer(key poolKey) *net.Dialer {
	return &net.Dialer{Timeout: key.connect, KeepAlive: 15 * time.Second}
}

// clientTLS is the TLS of both transports. Go's client never renegotiates
// unless told to; saying so here keeps it from being told.
func clientTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Renegotiation: tls.RenegotiateNever}
}

// ownCarrier is package h1.
type ownCarrier struct{ *h1.Transport }

func newOwn(key poolKey) ownCarrier {
	return ownCarrier{h1.New(h1.Config{
		Dial: dialer(key).DialContext, TLS: clientTLS(), HandshakeTimeout: key.connect,
		MaxConns: key.maxConns, MaxIdle: idlePerHost, IdleTimeout: idleTimeout, MaxHead: maxHead,
	})}
}

func (c ownCarrier) carry(r *Reply, q *Request) (*http.Response, error) {
	p := r.Provider
	prefix, path := p.target(q.Call)
	call := h1.Call{Scheme: p.base.Scheme, Host: p.base.Host, Method: q.Call.Method, Prefix: prefix, Path: path, Fields: (*fields)(q)}
	call.Body, call.Length = r.body.handOver()
	var info h1.Info
	resp, err := c.Send(&r.life, &call, &info)
	r.Connect, r.Reused = info.Connected, info.Reused
	return resp, err
}

// fields are the header of a call as lines.
type fields Request

// AppendFields implements h1.Fields.
func (f *fields) AppendFields(b []byte) ([]byte, error) {
	var err error
	f.provider.header((*Request)(f), func(name, value string) {
		if err == nil {
			b, err = h1.AppendField(b, name, value)
		}
	})
	return b, err
}

// standardCarrier is net/http's transport.
type standardCarrier struct{ *http.Transport }

func newStandard(key poolKey) standardCarrier {
	return standardCarrier{&http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer(key).DialContext,
		TLSClientConfig:        clientTLS(),
		TLSHandshakeTimeout:    key.connect,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // bytes are passed as they come, or undone by us
		MaxIdleConnsPerHost:    idlePerHost,
		MaxConnsPerHost:        key.maxConns,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHead,
	}}
}

func (c standardCarrier) carry(r *Reply, q *Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { r.Connect, r.Reused = time.Now(), i.Reused }}
	req, err := r.Provider.request(httptrace.WithClientTrace(&r.life, trace), q)
	if err != nil {
		return nil, err
	}
	req.Body, req.ContentLength = r.body.handOver()
	if r.body.inMemory() {
		req.GetBody = r.body.again
	}
	return c.RoundTrip(req)
}

// request is the request as net/http takes it, but for its body.
func (p *Provider) request(ctx context.Context, q *Request) (*http.Request, error) {
	prefix, path := p.target(q.Call)
	req, err := http.NewRequestWithContext(ctx, q.Call.Method, p.base.Scheme+"://"+p.base.Host+prefix+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header["User-Agent"] = nil // else net/http names itself
	p.header(q, func(name, value string) { req.Header[name] = append(req.Header[name], value) })
	return req, nil
}

// agreed is for TLS, where the provider says in the handshake which HTTP it
// speaks: net/http's transport, until an answer shows that it is HTTP/1.1; from
// then on our own.
type agreed struct {
	standardCarrier
	own   ownCarrier
	plain atomic.Bool // the provider does not speak HTTP/2
}

func (c *agreed) carry(r *Reply, q *Request) (*http.Response, error) {
	if c.plain.Load() {
		return c.own.carry(r, q)
	}
	resp, err := c.standardCarrier.carry(r, q)
	if err == nil && resp.ProtoMajor == 1 {
		c.plain.Store(true)
	}
	return resp, err
}

func (c *agreed) CloseIdleConnections() {
	c.standardCarrier.CloseIdleConnections()
	c.own.CloseIdleConnections()
}
