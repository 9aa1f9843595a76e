package experiment

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/wire/sse"
	"github.com/headgate-ai/headgate/lab/fake"
)

// serve runs a handler on loopback, with HTTP/1.1 and, without TLS too, HTTP/2.
// stop ends its connections and waits.
func serve(h http.Handler, change func(*http.Server)) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, Protocols: new(http.Protocols), ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet()}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	if change != nil {
		change(s)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if s.TLSConfig != nil {
			_ = s.ServeTLS(l, "", "")
			return
		}
		_ = s.Serve(l)
	})
	return l.Addr().String(), func() { _ = s.Close(); wg.Wait() }, nil
}

// simulator runs a simulated provider.
func simulator(change func(*fake.Config)) (url string, stop func(), err error) {
	c := fake.Default()
	c.Keep = 0
	change(&c)
	address, stop, err := serve(fake.New(c), nil)
	return "http://" + address, stop, err
}

// relay is a gateway reduced to what these experiments are about: when bytes go
// on. With a buffer it stores them until that is full, and without one it passes
// on each event when it is whole.
type relay struct {
	upstream string
	buffer   int
	client   *http.Client
}

func newRelay(upstream string, buffer int) *relay {
	return &relay{upstream, buffer, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}}}
}

func (x *relay) close() { x.client.CloseIdleConnections() }

// ServeHTTP passes a call on, and its answer back.
func (x *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resp, err := x.call(r)
	if err != nil {
		http.Error(w, "the provider cannot be reached", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	if x.buffer > 0 {
		storeUntilFull(w, resp.Body, x.buffer)
		return
	}
	eventWise(w, resp.Body)
}

// call repeats a request to the upstream, with its body in memory.
func (x *relay) call(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, x.upstream+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = r.Header.Clone()
	return x.client.Do(out)
}

// storeUntilFull sends what it has when the buffer is full, and at the end.
func storeUntilFull(w http.ResponseWriter, body io.Reader, size int) {
	buf := make([]byte, size)
	for {
		n, err := io.ReadFull(body, buf)
		if n > 0 && send(w, buf[:n]) != nil || err != nil {
			return
		}
	}
}

// eventWise sends every event when it is whole, those of one read together.
func eventWise(w http.ResponseWriter, body io.Reader) {
	var scan sse.Scanner
	buf := make([]byte, 0, 64<<10)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		whole := 0
		for ev, ok := scan.Next(buf); ok; ev, ok = scan.Next(buf[whole:]) {
			whole += ev.Size
		}
		if errors.Is(err, io.EOF) {
			whole = len(buf)
		}
		if whole > 0 && send(w, buf[:whole]) != nil || err != nil {
			return
		}
		buf = buf[:copy(buf, buf[whole:])]
	}
}

func send(w http.ResponseWriter, p []byte) error {
	if _, err := w.Write(p); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// quiet is for servers whose connections break on purpose.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
