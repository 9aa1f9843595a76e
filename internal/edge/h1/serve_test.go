//go:build linux

package h1

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/race"
)

func TestRequestIsAsNetHTTPMakesIt(t *testing.T) {
	seen := make(chan *http.Request, 2)
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(http.LocalAddrContextKey) == nil || r.Context().Value(http.ServerContextKey) == nil {
			t.Error("the context lacks the server or the address")
		}
		_, _ = io.Copy(io.Discard, r.Body)
		seen <- r
	}
	s := start(t, h)
	raw := post(`{}`, "content-type: application/json\r\n", "X-REQUEST-ID:  a b\t\r\n", "x-odd_name: 1\r\n", "X-Odd_name: 2\r\n", "Pragma: no-cache\r\n", "TE: trailers\r\n", "Connection: Close\r\n")
	p := s.dial()
	p.send(raw)
	p.wantAnswer(200, "")
	own := <-seen

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	std := &http.Server{Handler: http.HandlerFunc(h)}
	go std.Serve(l)
	defer std.Close()
	q := (&server{t: t, addr: l.Addr().String()}).dial()
	q.send(raw)
	q.wantAnswer(200, "")
	other := <-seen
	if a, b := fmt.Sprint(own.Header), fmt.Sprint(other.Header); a != b {
		t.Errorf("header %s, want %s", a, b)
	}
	a := fmt.Sprint(own.Method, own.URL, own.Proto, own.ProtoMajor, own.ProtoMinor, own.ContentLength, own.Host, own.RequestURI, own.Close, own.TransferEncoding, own.Trailer, own.URL.EscapedPath())
	b := fmt.Sprint(other.Method, other.URL, other.Proto, other.ProtoMajor, other.ProtoMinor, other.ContentLength, other.Host, other.RequestURI, other.Close, other.TransferEncoding, other.Trailer, other.URL.EscapedPath())
	if a != b {
		t.Errorf("request %s, want %s", a, b)
	}
	if s.Stats().Served != 1 {
		t.Errorf("stats %+v", s.Stats())
	}
}

func TestPipelined(t *testing.T) {
	s := start(t, echo)
	p := s.dial()
	p.send(post("one") + post("two") + post("three"))
	p.wantAnswer(200, "one")
	p.wantAnswer(200, "two")
	p.wantAnswer(200, "three")
	if st := s.Stats(); st.Served != 3 || st.Accepted != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestPipelinedLargerThanTheBuffer(t *testing.T) {
	s := start(t, echo)
	p := s.dial()
	var all strings.Builder
	for i := range 40 {
		all.WriteString(post(strings.Repeat(string(rune('a'+i%26)), i*97)))
	}
	go p.send(all.String())
	for i := range 40 {
		p.wantAnswer(200, strings.Repeat(string(rune('a'+i%26)), i*97))
	}
}

func TestByteByByte(t *testing.T) {
	s := start(t, echo)
	p := s.dial()
	_ = p.SetNoDelay(true)
	for range 2 {
		for _, b := range []byte(post("hello", "X-Some: thing\r\n")) {
			p.send(string(b))
		}
		p.wantAnswer(200, "hello")
	}
}

func TestEmptyLineBetweenRequests(t *testing.T) {
	s := start(t, echo)
	p := s.dial()
	p.send(post("one") + "\r\n" + post("two"))
	p.wantAnswer(200, "one")
	p.wantAnswer(200, "two")
	p.send("\r\n")
	time.Sleep(20 * time.Millisecond)
	p.send(post("three"))
	p.wantAnswer(200, "three")
	p.send("\r\n") // and no more: the connection is idle
	time.Sleep(20 * time.Millisecond)
	if err := shutdown(t, s, 2*time.Second); err != nil {
		t.Error(err)
	}
}

func TestLargeHead(t *testing.T) {
	s := start(t, echo, func(c *Config) { c.MaxHeader = 64 << 10 })
	p := s.dial()
	for range 2 {
		p.send(post("x", "X-Large: "+strings.Repeat("v", 50<<10)+"\r\n"))
		p.wantAnswer(200, "x")
	}
	p.send(post("x", "X-Large: "+strings.Repeat("v", 70<<10)+"\r\n"))
	if r, _ := p.answer(); r.StatusCode != 431 || !r.Close {
		t.Errorf("got %d, close %v", r.StatusCode, r.Close)
	}
	if s.Stats().Refused != 1 {
		t.Errorf("stats %+v", s.Stats())
	}
}

func TestKeepAliveOfManyClients(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if len(b)%2 == 0 {
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		}
		for piece := range bytes.SplitAfterSeq(b, []byte{'5'}) {
			_, _ = w.Write(piece)
			if len(b)%3 == 0 {
				_ = http.NewResponseController(w).Flush()
			}
		}
		go r.Body.Close() // a client of the body that closes late must hurt nobody
	})
	tr := &http.Transport{MaxIdleConnsPerHost: 64}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 20 {
				body := strings.Repeat(fmt.Sprintf("%d-%d;", i, j), (i*j)%300+1)
				r, err := client.Post("http://"+s.addr+hot, "text/plain", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if err != nil || string(got) != body {
					t.Errorf("got %d bytes, %v; want %d", len(got), err, len(body))
					return
				}
			}
		})
	}
	wg.Wait()
	if st := s.Stats(); st.Served != 64*20 || st.Accepted > 128 {
		t.Errorf("stats %+v", st)
	}
}

func TestLargeBodies(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(make([]byte, n))
		_, _ = fmt.Fprintf(w, "%x", sum.Sum(nil))
	})
	p := s.dial()
	for _, n := range []int{0, 1, 3000, 4096, 8 << 10, 70 << 10, 5 << 20} {
		body := strings.Repeat("z", n)
		go p.send(post(body))
		_, got := p.answer()
		if want := fmt.Sprintf("%x", sha256.Sum256([]byte(body))); got[n:] != want {
			t.Errorf("%d: got %s, want %s", n, got[n:], want)
		}
	}
}

func TestHandedOverWithItsBytes(t *testing.T) {
	s := start(t, echo)
	for reason, raw := range map[Reason]string{
		Method:     "PUT /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
		Target:     "POST /p?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
		Framing:    "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		Version:    "POST /p HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
		Expect:     "POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
		Connection: "POST /p HTTP/1.1\r\nHost: a\r\nTE: gzip\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
	} {
		before := s.Stats().Handed[reason]
		p := s.dial()
		p.send(post("first") + raw)
		p.wantAnswer(200, "first")
		if reason == Expect {
			if r, _ := p.answer(); r.StatusCode != 100 {
				t.Errorf("%v: got %d, want 100 Continue", reason, r.StatusCode)
			}
		}
		p.wantAnswer(200, "hello")
		p.wantEnd()
		if got := s.Stats().Handed[reason]; got != before+1 {
			t.Errorf("%v: handed over %d, want %d", reason, got, before+1)
		}
	}
}

func TestHTTP2WithoutTLS(t *testing.T) {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := start(t, echo, func(c *Config) {
		c.Std = &http.Server{Handler: c.Handler, Protocols: &protocols}
	})
	var own http.Protocols
	own.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &own}
	defer tr.CloseIdleConnections()
	r, err := (&http.Client{Transport: tr}).Post("http://"+s.addr+hot, "text/plain", strings.NewReader("over h2"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, _ := io.ReadAll(r.Body); string(b) != "over h2" || r.ProtoMajor != 2 {
		t.Errorf("%s %q", r.Proto, b)
	}
	if s.Stats().Handed[Version] != 1 {
		t.Errorf("stats %+v", s.Stats())
	}
}

func TestForeignConnectionsGoToNetHTTP(t *testing.T) {
	c := Config{Handler: http.HandlerFunc(echo), Known: func(string) bool { return true }, Std: &http.Server{Handler: http.HandlerFunc(echo)}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(c)
	done := make(chan error, 1)
	go func() { done <- s.Serve(wrapping{l}) }()
	p := (&server{t: t, addr: l.Addr().String()}).dial()
	p.send(post("x"))
	p.wantAnswer(200, "x")
	if st := s.Stats(); st.Handed[Foreign] != 1 || st.Served != 0 {
		t.Errorf("stats %+v", st)
	}
	_ = p.Close()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

type wrapping struct{ net.Listener }

func (w wrapping) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

func TestReasons(t *testing.T) {
	for r := range reasons {
		if r.String() == "" || r.String() == "unknown" {
			t.Errorf("reason %d has no name", r)
		}
	}
	if reasons.String() != "unknown" {
		t.Error("a name for no reason")
	}
}

// TestNothingPointsIntoTheBuffer: what a handler keeps of a request does not
// change when the buffer is used for others.
func TestNothingPointsIntoTheBuffer(t *testing.T) {
	var kept []*http.Request
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		kept = append(kept, r)
	})
	p := s.dial()
	for i := range 20 {
		p.send(strings.Replace(post("x", fmt.Sprintf("X-Odd-%d: value %d\r\n", i, i)), "localhost", fmt.Sprintf("host%d", i), 1))
		p.wantAnswer(200, "")
	}
	for i, r := range kept {
		if r.Header.Get(fmt.Sprintf("X-Odd-%d", i)) != fmt.Sprintf("value %d", i) || r.Host != fmt.Sprintf("host%d", i) || r.URL.Path != hot {
			t.Errorf("%d: %v %v %v", i, r.Host, r.URL, r.Header)
		}
	}
}

// TestAllocations is the budget of one exchange: the request with its header
// and context, the answer's header, and the objects that must not be pooled.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	s := start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = plain
		_, _ = w.Write(answer)
	})
	p := s.dial()
	raw := rawCall(0)
	got := testing.AllocsPerRun(200, func() {
		_, _ = p.Write(raw)
		_ = skipAnswer(p.br, len(answer))
	})
	if got > 13 {
		t.Errorf("%v allocations", got)
	}
}

var (
	plain  = []string{"text/plain"}
	answer = []byte("hello, this is the answer")
)
