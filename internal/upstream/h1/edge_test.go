package h1

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// hooked is a connection that calls a function in its reads or after its
// failed writes.
type hooked struct {
	net.Conn
	read, failed func()
}

func (h hooked) Read(p []byte) (int, error) {
	if h.read != nil {
		h.read()
	}
	return h.Conn.Read(p)
}

func (h hooked) Write(p []byte) (int, error) {
	n, err := h.Conn.Write(p)
	if err != nil && h.failed != nil {
		h.failed()
	}
	return n, err
}

// TestCancelInTheLastRead: the context ends while the last bytes come. The
// answer is whole, but the deadline may strike the next exchange (client
// pitfall 2).
func TestCancelInTheLastRead(t *testing.T) {
	req, cancel := withCancel(t, newRequest(t, "GET", "http://h/", ""))
	conn := hooked{Conn: &scripted{rest: short, size: 1000}, read: cancel}
	tr := newTransport(t, Config{Dial: dialTo(conn)})
	resp, err := tr.roundTrip(req, nil)
	if err == nil {
		_, _ = resp.Body.Read(make([]byte, 10))
		resp.Body.Close()
	}
	if st := tr.Stats(); st.Open != 0 {
		t.Errorf("kept: %+v", st)
	}
	// The same without a body, where nothing is read after the context ended.
	req, cancel = withCancel(t, newRequest(t, "GET", "http://h/", ""))
	conn = hooked{Conn: &scripted{rest: "HTTP/1.1 204 x\r\n\r\n", size: 1000}, read: cancel}
	tr = newTransport(t, Config{Dial: dialTo(conn)})
	if _, err := tr.roundTrip(req, nil); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if st := tr.Stats(); st.Open != 0 {
		t.Errorf("kept: %+v", st)
	}
}

// TestLeftOverInPlace: what comes behind the end of a body that is decoded in
// the caller's buffer lies in no buffer of ours, and counts all the same.
func TestLeftOverInPlace(t *testing.T) {
	for _, rest := range []string{"2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n", "2\r\nok\r\n0\r\n\r\n"} {
		s := rawServer(t, func(c net.Conn) {
			_, _, _ = readRequest(c)
			_, _ = io.WriteString(c, okHead+"Transfer-Encoding: chunked\r\n\r\n")
			time.Sleep(20 * time.Millisecond)
			_, _ = io.WriteString(c, rest)
			_, _ = c.Read(make([]byte, 1))
		})
		tr := newTransport(t, Config{})
		_, body, _ := must(t, tr, newRequest(t, "GET", s.url(), ""))
		if st := tr.Stats(); body != "ok" || (st.Idle == 1) != strings.HasSuffix(rest, "0\r\n\r\n") {
			t.Errorf("%q: %q, %+v", rest, body, st)
		}
	}
}

// TestCloseWaitsForUpload: when Close returns nobody reads the request's bytes.
func TestCloseWaitsForUpload(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	s := rawServer(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 100))
		_, _ = io.WriteString(c, tooLarge)
		<-hold
	})
	tr := newTransport(t, Config{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return hooked{Conn: c, failed: func() { time.Sleep(30 * time.Millisecond) }}, err
	}})
	body := newMemory(strings.Repeat("x", 32<<20))
	req := newRequest(t, "POST", s.url(), "")
	req.Body = body
	resp, err := tr.roundTrip(req, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if body.closes != 1 {
		t.Errorf("closed %d times", body.closes)
	}
}

// TestExcess bounds chunks that are nearly all framing, and lets pass small
// ones, which streams are made of.
func TestExcess(t *testing.T) {
	decode := func(s string) error {
		var d chunks
		_, _, err := d.decode(make([]byte, len(s)), []byte(s))
		return err
	}
	if err := decode(strings.Repeat("1\r\nx\r\n", 100000)); err != nil {
		t.Error(err)
	}
	if err := decode(strings.Repeat("1;"+strings.Repeat("e", 500)+"\r\nx\r\n", 100)); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if err := decode("1;" + strings.Repeat("e", 2000)); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}
