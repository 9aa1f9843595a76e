package h1

import (
	"net/http"
	"strings"
	"testing"
)

// TestNothingPointsIntoBuffers: what a caller keeps of a response survives the
// read buffer's next user (pitfall 3 under Both).
func TestNothingPointsIntoBuffers(t *testing.T) {
	s := rawServer(t, answering("HTTP/1.1 418 I am a teapot\r\nX-Private-Name: a value\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"1\r\nx\r\n0\r\nX-Sum: 123\r\n\r\n"))
	tr := newTransport(t, Config{})
	resp, err := tr.roundTrip(newRequest(t, "GET", s.url(), ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(resp.Body, 3); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		b := newBlock()
		for i := range b {
			b[i] = '!'
		}
		defer b.free()
	}
	if resp.Status != "418 I am a teapot" || resp.Header.Get("X-Private-Name") != "a value" ||
		resp.Trailer.Get("X-Sum") != "123" || resp.Proto != "HTTP/1.1" {
		t.Errorf("%+v", resp)
	}
}

// TestGrownBuffers: a buffer that had to grow does not come into the pool, and
// bytes of the body behind a large head are not lost.
func TestGrownBuffers(t *testing.T) {
	large := okHead + "A: " + strings.Repeat("a", 10000) + "\r\nContent-Length: 6000\r\n\r\n" + strings.Repeat("b", 6000)
	s := rawServer(t, answering(large))
	tr := newTransport(t, Config{})
	for range 20 {
		resp, body, _ := must(t, tr, newRequest(t, "POST", s.url(), "x"))
		if len(body) != 6000 || len(resp.Header.Get("A")) != 10000 {
			t.Fatal(len(body))
		}
	}
	if st := tr.Stats(); st.Dialled != 1 {
		t.Errorf("%+v", st)
	}
}

// TestIdleHoldsNothing: an idle connection pins no buffer (client pitfall 7).
func TestIdleHoldsNothing(t *testing.T) {
	s := rawServer(t, answering(short))
	tr := newTransport(t, Config{})
	must(t, tr, newRequest(t, "GET", s.url(), ""))
	for _, h := range tr.hosts {
		for _, c := range h.idle {
			if c.got.buf != nil {
				t.Error("a buffer in an idle connection")
			}
		}
	}
}

func TestCanonical(t *testing.T) {
	for _, name := range []string{"etag", "ETag", "X-REQUEST-ID", "x-request-id", "Content-Type", "www-authenticate",
		"x_y", "X-Abc--d", "-x", "1a-2B", strings.Repeat("long-", 20) + "x"} {
		got, ok := canonical(name)
		if want := http.CanonicalHeaderKey(name); !ok || got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for low, name := range common {
		if http.CanonicalHeaderKey(low) != name {
			t.Errorf("%q is not the form of %q", name, low)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = canonical("x-ratelimit-remaining-requests") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestMaxHead counts informational responses too.
func TestMaxHead(t *testing.T) {
	head := okHead + "A: " + strings.Repeat("a", 100) + "\r\nContent-Length: 2\r\n\r\n"
	hint := "HTTP/1.1 103 Early Hints\r\n\r\n"
	for _, c := range []struct {
		max    int
		answer string
		ok     bool
	}{
		{len(head), head + "ok", true}, {len(head) - 1, head + "ok", false}, {len(head) + 2*len(hint), hint + hint + head + "ok", true},
		{len(head) + 2*len(hint) - 1, hint + hint + head + "ok", false}, {len(hint), hint + head + "ok", false},
	} {
		s := rawServer(t, once(c.answer))
		_, err := New(Config{MaxHead: c.max, MaxIdle: -1}).roundTrip(newRequest(t, "HEAD", s.url(), ""), nil)
		if (err == nil) != c.ok {
			t.Errorf("limit %d: %v", c.max, err)
		}
	}
}
