//go:build linux

package h1

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestLargeAnswerHead: a head beyond the buffer's page, with and without data.
func TestLargeAnswerHead(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Large", strings.Repeat("v", len(b)))
		_, _ = w.Write(b)
		if len(b)%2 == 1 {
			w.(http.Flusher).Flush()
			_, _ = w.Write(b)
		}
	})
	p := s.dial()
	for _, n := range []int{3500, 3601, 3700, 3801, 3900, 3950, 4001, 4096, 4097, 9000, 20_001} {
		body := strings.Repeat("b", n)
		p.send(post(body))
		r, got := p.answer()
		if r.Header.Get("X-Large") != strings.Repeat("v", n) || got != strings.Repeat(body, 1+n%2) {
			t.Errorf("%d: header of %d, body of %d bytes", n, len(r.Header.Get("X-Large")), len(got))
		}
	}
}

// TestHeadsAcrossTheBuffersEnd: requests that lie anywhere in the buffer.
func TestHeadsAcrossTheBuffersEnd(t *testing.T) {
	s := start(t, echo)
	for n := 3700; n < 4100; n += 9 {
		p := s.dial()
		field := "X-Pad: " + strings.Repeat("p", n-200) + "\r\n"
		p.send(post("one", field) + post("two") + "\r" + "\n" + post(strings.Repeat("3", n)))
		p.wantAnswer(200, "one")
		p.wantAnswer(200, "two")
		p.wantAnswer(200, strings.Repeat("3", n))
		_ = p.Close()
	}
}

// TestEmptyLineInPieces, and one that is not empty.
func TestEmptyLineInPieces(t *testing.T) {
	s := start(t, echo)
	p := s.dial()
	p.send(post("one"))
	p.wantAnswer(200, "one")
	p.send("\r")
	time.Sleep(10 * time.Millisecond)
	p.send("\n")
	time.Sleep(10 * time.Millisecond)
	p.send(post("two"))
	p.wantAnswer(200, "two")
	p.send("\rx" + post("three"))
	if r, _ := p.answer(); r.StatusCode != 400 {
		t.Errorf("got %d", r.StatusCode)
	}
}
