//go:build linux

package h1

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// either serves h with this package or with net/http, for comparisons.
func either(b *testing.B, own bool, h http.Handler) (addr string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	std := &http.Server{Handler: h}
	if own {
		s := New(Config{Handler: h, Std: std, BaseContext: ctx, Known: func(p string) bool { return p == "/v1/chat/completions" }})
		go s.Serve(l)
		b.Cleanup(func() { _ = s.Close(); cancel() })
	} else {
		std.BaseContext = func(net.Listener) context.Context { return ctx }
		go std.Serve(l)
		b.Cleanup(func() { _ = std.Close(); cancel() })
	}
	return l.Addr().String()
}

var sides = []struct {
	name string
	own  bool
}{{"nethttp", false}, {"h1", true}}

const call = `{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}`

func rawCall(n int) []byte {
	body := call
	for len(body) < n {
		body += " "
	}
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:8080\r\nAccept: application/json\r\nAccept-Encoding: gzip, deflate\r\nAuthorization: Bearer sk-0123456789abcdef0123456789abcdef\r\nContent-Type: application/json\r\nUser-Agent: OpenAI/Python 1.99.0\r\nX-Stainless-Lang: python\r\nX-Stainless-Retry-Count: 0\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// BenchmarkUnary is one call with a small whole answer. The client is the same
// for both sides, allocates nothing, and is in the figures.
func BenchmarkUnary(b *testing.B) {
	bufs := sync.Pool{New: func() any { return new([4096]byte) }}
	answer := make([]byte, 600)
	for i := range answer {
		answer[i] = 'x'
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buf := bufs.Get().(*[4096]byte)
		for {
			if _, err := r.Body.Read(buf[:]); err != nil {
				break
			}
		}
		bufs.Put(buf)
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(answer))}
		w.WriteHeader(200)
		_, _ = w.Write(answer)
	})
	for _, side := range sides {
		b.Run(side.name, func(b *testing.B) {
			c, err := net.Dial("tcp", either(b, side.own, h))
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			req := rawCall(0)
			br := bufio.NewReader(c)
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				_, _ = c.Write(req)
				if err := skipAnswer(br, len(answer)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// cpu reports the processor time of the process, which says more than the
// clock on a machine that others use.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return u.Utime.Nano() + u.Stime.Nano()
	}
	began := used()
	return func() { b.ReportMetric(float64(used()-began)/float64(b.N), "cpu-ns/op") }
}

func skipAnswer(br *bufio.Reader, n int) error {
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			_, err = br.Discard(n)
			return err
		}
	}
}

// BenchmarkToken is one piece of an open stream: a write and a flush.
func BenchmarkToken(b *testing.B) {
	token := []byte("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n")
	for _, side := range sides {
		b.Run(side.name, func(b *testing.B) {
			done := make(chan struct{})
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(done)
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header()["Content-Type"] = []string{"text/event-stream"}
				rc := http.NewResponseController(w)
				b.ReportAllocs()
				defer cpu(b)()
				for b.Loop() {
					_, _ = w.Write(token)
					_ = rc.Flush()
				}
			})
			c, err := net.Dial("tcp", either(b, side.own, h))
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			_, _ = c.Write(rawCall(0))
			go discard(c)
			<-done
		})
	}
}

// discard reads in large pieces, so that the client costs little.
func discard(c net.Conn) {
	for b := make([]byte, 256<<10); ; {
		if _, err := c.Read(b); err != nil {
			return
		}
	}
}
