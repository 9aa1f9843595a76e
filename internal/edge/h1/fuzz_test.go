//go:build linux

package h1

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// reply is what a client sees of one answer, without what may differ: Date and
// Connection, and how the body is framed.
type reply struct {
	status int
	header string
	body   string
}

// mirror answers with a picture of the request, in a way that depends on it.
func mirror(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	sum := fnv.New32a()
	_, _ = sum.Write(b)
	h := w.Header()
	h.Set("X-Seen", fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, r.Host))
	text := fmt.Sprintf("%v\n%v\n%d %d %08x %v %v", r.URL, r.Header, r.ContentLength, len(b), sum.Sum32(), err, r.Close)
	switch len(b) % 5 {
	case 0:
		h.Set("Content-Length", fmt.Sprint(len(text)))
	case 1:
		h.Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text[:3])
		_ = http.NewResponseController(w).Flush()
		text = text[3:]
	case 2:
		w.WriteHeader(http.StatusNoContent)
		return
	case 3:
		for range 3 {
			_, _ = w.Write(bytes.Repeat([]byte("long "), 700))
		}
	}
	_, _ = io.WriteString(w, text)
}

// replies reads all answers of a connection.
func replies(raw []byte) (all []reply) {
	br := bufio.NewReader(bytes.NewReader(raw))
	for {
		r, err := http.ReadResponse(br, nil)
		if err != nil {
			return all
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			b = append(b, "\nbroken: "+err.Error()...)
		}
		for _, k := range []string{"Date", "Connection", "Content-Length"} {
			r.Header.Del(k)
		}
		all = append(all, reply{r.StatusCode, fmt.Sprint(r.Header), string(b)})
	}
}

// FuzzDifferential sends the same bytes to this package and to net/http. What
// comes back must be the same, or the own server must have been stricter: it
// refused a request, and said no more.
func FuzzDifferential(f *testing.F) {
	for _, a := range corpus(f) {
		f.Add([]byte(a.raw))
	}
	f.Add([]byte(post("one") + post("two") + post("three4")))
	var ownSaw, stdSaw atomic.Int64
	counting := func(n *atomic.Int64) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { n.Add(1); mirror(w, r) }
	}
	quiet := log.New(io.Discard, "", 0)
	own := start(f, counting(&ownSaw), func(c *Config) {
		c.ErrorLog, c.MaxHeader = quiet, 8<<10
		c.Std = &http.Server{Handler: c.Handler, ErrorLog: quiet, MaxHeaderBytes: 8 << 10}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	plain := &http.Server{Handler: counting(&stdSaw), ErrorLog: quiet, MaxHeaderBytes: 8 << 10}
	go plain.Serve(l)
	f.Cleanup(func() { _ = plain.Close() })
	std := &server{t: f, addr: l.Addr().String()}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 64<<10 {
			return
		}
		ownSaw.Store(0)
		stdSaw.Store(0)
		a, b := replies(exchangeRaw(t, own.addr, raw)), replies(exchangeRaw(t, std.addr, raw))
		if ownSaw.Load() > stdSaw.Load() {
			t.Errorf("%d requests seen, net/http saw %d", ownSaw.Load(), stdSaw.Load())
		}
		if why := stricter(a, b); why != "" {
			t.Errorf("%s\nown: %+v\nstd: %+v", why, a, b)
		}
	})
}

// stricter says what is wrong with own, beside std. Status 400 and above is
// never the handler's, which knows only 200 and 204.
func stricter(own, std []reply) string {
	for i, o := range own {
		refused := o.status >= 400 && i == len(own)-1
		switch {
		case refused:
			return ""
		case i >= len(std):
			return "more answers than net/http"
		case o != std[i]:
			return fmt.Sprintf("answer %d differs", i)
		}
	}
	for _, s := range std[len(own):] {
		if s.status < 400 {
			return "fewer answers than net/http"
		}
	}
	return ""
}

func exchangeRaw(t *testing.T, addr string, raw []byte) []byte {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	sent := make(chan struct{})
	go func() {
		_, _ = c.Write(raw)
		_ = c.(*net.TCPConn).CloseWrite()
		close(sent)
	}()
	b, err := io.ReadAll(c)
	<-sent
	if err, ok := err.(net.Error); ok && err.Timeout() { //nolint:errorlint // of a connection
		t.Errorf("no end after %q", b)
	}
	return b
}
