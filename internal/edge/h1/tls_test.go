//go:build linux

package h1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// certified is a configuration with httptest's certificate, and a client that
// trusts it.
func certified(t *testing.T, next ...string) (*tls.Config, *http.Transport) {
	t.Helper()
	ts := httptest.NewUnstartedServer(nil)
	ts.EnableHTTP2 = true
	ts.StartTLS()
	defer ts.Close()
	tr := ts.Client().Transport.(*http.Transport)
	t.Cleanup(tr.CloseIdleConnections)
	return &tls.Config{Certificates: ts.TLS.Certificates, NextProtos: next}, tr
}

func (s *server) dialTLS(conf *tls.Config) *tls.Conn {
	s.t.Helper()
	conf = conf.Clone()
	conf.ServerName = "example.com"
	c, err := tls.Dial("tcp", s.addr, conf)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

func TestTLS(t *testing.T) {
	conf, tr := certified(t, "h2", "http/1.1")
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || !r.TLS.HandshakeComplete {
			t.Error("no TLS state")
		}
		w.Header().Set("X-Proto", r.Proto)
		echo(w, r)
	}, withTLS(conf))
	one := tr.Clone()
	one.ForceAttemptHTTP2, one.Protocols = false, new(http.Protocols)
	one.Protocols.SetHTTP1(true)
	one.TLSClientConfig.NextProtos = []string{"http/1.1"}
	defer one.CloseIdleConnections()
	for proto, tr := range map[string]*http.Transport{"HTTP/1.1": one, "HTTP/2.0": tr} {
		client := &http.Client{Transport: tr}
		for _, path := range []string{hot, "/other"} {
			for _, n := range []int{1, 5000, 100_000} {
				body := strings.Repeat("x", n)
				r, err := client.Post("https://"+s.addr+path, "text/plain", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if string(b) != body || err != nil || r.Header.Get("X-Proto") != proto {
					t.Errorf("%s %s: %d bytes, %v, %v", proto, path, len(b), err, r.Header)
				}
			}
		}
	}
	if st := s.Stats(); st.Served != 3 || st.Handed[ALPN] != 1 || st.Handed[Target] != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestTLSPiecesAndLargeAnswers(t *testing.T) {
	conf, tr := certified(t, "http/1.1")
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		for range 3 {
			_, _ = w.Write(b)
			_ = http.NewResponseController(w).Flush()
		}
	}, withTLS(conf))
	c := s.dialTLS(tr.TLSClientConfig)
	br := bufio.NewReader(c)
	for _, n := range []int{1, 3000, 16<<10 - 10, 16 << 10, 40_000} {
		body := strings.Repeat("p", n)
		for _, b := range []byte("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: ") {
			_, _ = c.Write([]byte{b}) // a record each
		}
		_, _ = fmt.Fprintf(c, "%d\r\n\r\n%s", n, body)
		r, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r.Body); string(b) != body+body+body || err != nil {
			t.Errorf("%d: %d bytes, %v", n, len(b), err)
		}
	}
	_, _ = io.WriteString(c, "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
	if r, err := http.ReadResponse(br, nil); err != nil || r.StatusCode != 400 {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := io.ReadAll(br); err != nil {
		t.Errorf("TLS is not closed properly: %v", err)
	}
}

func TestTLSClientLeaves(t *testing.T) {
	conf, tr := certified(t, "http/1.1")
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	s := start(t, leaver(begun, ended, true), withTLS(conf))
	c := s.dialTLS(tr.TLSClientConfig)
	_, _ = io.WriteString(c, post("x"))
	<-begun
	_ = c.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTLSEarlyRefusal(t *testing.T) {
	conf, tr := certified(t, "http/1.1")
	s := start(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(413) }, withTLS(conf))
	for range 5 {
		c := s.dialTLS(tr.TLSClientConfig)
		go func() { _, _ = io.WriteString(c, post(strings.Repeat("x", 5<<20))) }()
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != 413 || !r.Close {
			t.Fatalf("%v, %v", r, err)
		}
		_ = c.NetConn().Close()
	}
}

func TestTLSHandshakeIsBounded(t *testing.T) {
	conf, _ := certified(t)
	s := start(t, echo, withTLS(conf), func(c *Config) { c.HeaderTimeout = 100 * time.Millisecond })
	silent := s.dial()
	at := time.Now()
	_, _ = io.ReadAll(silent.br)
	if d := time.Since(at); d > time.Second {
		t.Errorf("after %v", d)
	}
	plain := s.dial()
	plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if b, _ := io.ReadAll(plain.br); !strings.HasPrefix(string(b), "HTTP/1.0 400") {
		t.Errorf("plain text: %q", b)
	}
	within(t, time.Second, "connections closed", func() bool { return s.Stats().Open == 0 })
}
