package h1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// outcome is what a caller sees of an exchange.
type outcome struct {
	Failed   bool
	Status   string
	Proto    string
	Header   http.Header
	Length   int64
	TE       []string
	Close    bool
	Trailer  http.Header
	Body     string
	BodyFail bool
}

// observe makes an exchange. Fields that the two transports mean to treat
// differently are taken out.
func observe(rt http.RoundTripper, req *http.Request) (o outcome, err error) {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return outcome{Failed: true}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	h := resp.Header.Clone()
	delete(h, "Connection")
	return outcome{
		Status: resp.Status, Proto: resp.Proto, Header: h, Length: resp.ContentLength,
		TE: resp.TransferEncoding, Close: resp.Close, Trailer: resp.Trailer,
		Body: string(b), BodyFail: err != nil,
	}, err
}

// once serves one request with some bytes and closes.
func once(answer string) func(net.Conn) {
	return func(c net.Conn) {
		if _, _, err := readRequest(c); err != nil {
			return
		}
		_, _ = io.WriteString(c, answer)
	}
}

// both observes an answer through both transports.
func both(t *testing.T, method, answer string) (ours, theirs outcome, err error) {
	t.Helper()
	s := rawServer(t, once(answer))
	defer s.Close()
	tr := newTransport(t, Config{})
	ours, err = observe(tr, newRequest(t, method, s.url(), ""))
	std := &http.Transport{DisableCompression: true}
	defer std.CloseIdleConnections()
	theirs, _ = observe(std, newRequest(t, method, s.url(), ""))
	if st := tr.Stats(); st.InUse != 0 {
		t.Errorf("in use: %d", st.InUse)
	}
	return ours, theirs, err
}

var golden = map[string]string{
	"counted": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"a\":\"bcd\"}\n",
	"chunked": "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"b\r\ndata: one\n\n\r\n00C;a=b\r\ndata: three\n\r\n0\r\n\r\n",
	"trailer": "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nx-more: 2\r\n\r\n",
	"closed":  "HTTP/1.1 200 OK\r\nX-A: 1\r\nX-A: 2\r\n\r\nto the end",
	"1xx": "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" +
		"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok",
	"1.0": "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"204": "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
}

// TestCut cuts good answers off at every byte. What was complete, and only
// that, must look complete (pitfall 4).
func TestCut(t *testing.T) {
	for name, answer := range golden {
		t.Run(name, func(t *testing.T) {
			for i := range len(answer) + 1 {
				ours, theirs, err := both(t, "GET", answer[:i])
				if !reflect.DeepEqual(ours, theirs) {
					t.Errorf("cut at %d:\nours   %+v\ntheirs %+v", i, ours, theirs)
				}
				if ours.BodyFail && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("cut at %d: %v", i, err)
				}
				if ours.Failed && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
					t.Errorf("cut at %d: %v", i, err)
				}
			}
		})
	}
}

const okHead = "HTTP/1.1 200 OK\r\n"

// oddities are answers that few servers give. A strict one is refused here
// though net/http takes it.
var oddities = []struct {
	name, method, answer string
	strict               bool
}{
	{"no reason", "", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", false},
	{"no blank after the code", "", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", false},
	{"long reason", "", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 1\r\n\r\nx", false},
	{"two blanks before the code", "", "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n", true},
	{"code of 2 digits", "", "HTTP/1.1 20 OK\r\n\r\n", false},
	{"code of 4 digits", "", "HTTP/1.1 2000 OK\r\n\r\n", false},
	{"code 999", "", "HTTP/1.1 999 Denied\r\nContent-Length: 0\r\n\r\n", false},
	{"code 000", "", "HTTP/1.1 000 What\r\nContent-Length: 0\r\n\r\n", true},
	{"code with sign", "", "HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n", true},
	{"HTTP/1.2", "", "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", false},
	{"HTTP/2.0", "", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", true},
	{"HTTP/1.10", "", "HTTP/1.10 200 OK\r\nContent-Length: 0\r\n\r\n", false},
	{"http/1.1", "", "http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false},
	{"not HTTP", "", "SSH-2.0-OpenSSH_9.6\r\n", false},
	{"empty line first", "", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false},
	{"lone LF", "", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", true},
	{"lone LF in one line", "", okHead + "A: b\nContent-Length: 2\r\n\r\nok", true},
	{"lone CR in a value", "", okHead + "A: b\rc\r\nContent-Length: 0\r\n\r\n", false},
	{"lone CR in the reason", "", "HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n", true},
	{"NUL in a value", "", okHead + "A: b\x00c\r\nContent-Length: 0\r\n\r\n", false},
	{"DEL in a value", "", okHead + "A: b\x7fc\r\nContent-Length: 0\r\n\r\n", false},
	{"Latin-1 in a value", "", okHead + "A: caf\xe9\r\nContent-Length: 0\r\n\r\n", false},
	{"tab in a value", "", okHead + "A: b\tc\r\nContent-Length: 0\r\n\r\n", false},
	{"folded line", "", okHead + "A: b\r\n c\r\nContent-Length: 0\r\n\r\n", true},
	{"fold first", "", okHead + " A: b\r\nContent-Length: 0\r\n\r\n", false},
	{"blank before the colon", "", okHead + "A : b\r\nContent-Length: 0\r\n\r\n", true},
	{"no colon", "", okHead + "what\r\nContent-Length: 0\r\n\r\n", false},
	{"empty name", "", okHead + ": b\r\nContent-Length: 0\r\n\r\n", false},
	{"name with a bracket", "", okHead + "A(b): c\r\nContent-Length: 0\r\n\r\n", false},
	{"empty value", "", okHead + "A:\r\nB: \r\nContent-Length: 0\r\n\r\n", false},
	{"white space round a value", "", okHead + "A: \t b \t\r\nContent-Length: 0\r\n\r\n", false},
	{"names in odd case", "", okHead + "x-REQUEST-id: 1\r\ncontent-LENGTH: 2\r\nx_under: 3\r\n\r\nok", false},
	{"the same length twice", "", okHead + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", false},
	{"lengths that differ", "", okHead + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!", false},
	{"lengths in a list", "", okHead + "Content-Length: 2, 2\r\n\r\nok", false},
	{"length with sign", "", okHead + "Content-Length: +2\r\n\r\nok", false},
	{"length below 0", "", okHead + "Content-Length: -2\r\n\r\nok", false},
	{"length in hex", "", okHead + "Content-Length: 0x2\r\n\r\nok", false},
	{"length empty", "", okHead + "Content-Length: \r\n\r\nok", false},
	{"length too large", "", okHead + "Content-Length: 9223372036854775808\r\n\r\nok", false},
	{"length with zeros", "", okHead + "Content-Length: 002\r\n\r\nok", false},
	{"length with underscore", "", okHead + "Content-Length: 1_0\r\n\r\n0123456789", false},
	{"chunked with length", "", okHead + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
	{"chunked with bad length", "", okHead + "Content-Length: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
	{"gzip, chunked", "", okHead + "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
	{"chunked, gzip", "", okHead + "Transfer-Encoding: chunked, gzip\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
	{"chunked twice", "", okHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"identity", "", okHead + "Transfer-Encoding: identity\r\n\r\nok", false},
	{"coding empty", "", okHead + "Transfer-Encoding: \r\n\r\nok", false},
	{"xchunked", "", okHead + "Transfer-Encoding: xchunked\r\n\r\nok", false},
	{"chunked in 1.0", "", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
	{"1.0 to the end", "", "HTTP/1.0 200 OK\r\n\r\nhello", false},
	{"1.0 keep-alive", "", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", false},
	{"close", "", okHead + "Connection: x-a, Close\r\nContent-Length: 2\r\n\r\nok", false},
	{"HEAD", "HEAD", okHead + "Content-Length: 200\r\n\r\n", false},
	{"HEAD chunked", "HEAD", okHead + "Transfer-Encoding: chunked\r\n\r\n", false},
	{"HEAD without length", "HEAD", okHead + "\r\n", false},
	{"HEAD with bad length", "HEAD", okHead + "Content-Length: x\r\n\r\n", false},
	{"204 with length", "", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", false},
	{"304 with length", "", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false},
	{"304 chunked", "", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", false},
	{"bytes after the end", "", okHead + "Content-Length: 2\r\n\r\nok and more", false},
	{"bytes after the last chunk", "", okHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nmore", false},
	{"chunk size empty", "", okHead + "Transfer-Encoding: chunked\r\n\r\n\r\nok\r\n0\r\n\r\n", false},
	{"chunk size with sign", "", okHead + "Transfer-Encoding: chunked\r\n\r\n+2\r\nok\r\n0\r\n\r\n", false},
	{"chunk size with 0x", "", okHead + "Transfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n", false},
	{"chunk size too large", "", okHead + "Transfer-Encoding: chunked\r\n\r\n11111111111111112\r\nok\r\n0\r\n\r\n", false},
	{"chunk size with blanks", "", okHead + "Transfer-Encoding: chunked\r\n\r\n2 \t\r\nok\r\n0  \r\n\r\n", false},
	{"blank before a chunk size", "", okHead + "Transfer-Encoding: chunked\r\n\r\n 2\r\nok\r\n0\r\n\r\n", false},
	{"blank before an extension", "", okHead + "Transfer-Encoding: chunked\r\n\r\n2 ;a\r\nok\r\n0\r\n\r\n", false},
	{"quoted extension", "", okHead + "Transfer-Encoding: chunked\r\n\r\n2;a=\"b c\"\r\nok\r\n0;x\r\n\r\n", false},
	{"chunk too long", "", okHead + "Transfer-Encoding: chunked\r\n\r\n2\r\noki\r\n0\r\n\r\n", false},
	{"chunk line with LF", "", okHead + "Transfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n", false},
	{"chunk end with LF", "", okHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\n0\r\n\r\n", false},
	{"trailer not declared", "", okHead + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: 1\r\n\r\n", false},
	{"trailer declared and missing", "", okHead + "Trailer: X-A\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"trailer declared twice", "", okHead + "Trailer: X-A, x-b\r\nTrailer: X-C\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-B: 1\r\n\r\n", false},
	{"trailer for framing", "", okHead + "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"trailer without chunks", "", okHead + "Trailer: X-A\r\nContent-Length: 2\r\n\r\nok", false},
	{"trailer without colon", "", okHead + "Transfer-Encoding: chunked\r\n\r\n0\r\nwhat\r\n\r\n", false},
	{"trailer with LF", "", okHead + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: 1\n\r\n", false},
	{"trailer too long", "", okHead + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: " + strings.Repeat("a", 5000) + "\r\n\r\n", false},
	{"100 first", "", "HTTP/1.1 100 Continue\r\n\r\n" + okHead + "Content-Length: 2\r\n\r\nok", false},
	{"many 102 first", "", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20) + okHead + "Content-Length: 2\r\n\r\nok", false},
	{"too many 102", "", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 50) + okHead + "Content-Length: 2\r\n\r\nok", true},
	{"100 with length", "", "HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n" + okHead + "Content-Length: 2\r\n\r\nok", false},
	{"only 100", "", "HTTP/1.1 100 Continue\r\n\r\n", false},
	{"101", "", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello", true},
	{"head of 200 KiB", "", okHead + "A: " + strings.Repeat("a", 200<<10) + "\r\nContent-Length: 2\r\n\r\nok", false},
	{"head of 12 MiB", "", okHead + "A: " + strings.Repeat("a", 12<<20) + "\r\nContent-Length: 2\r\n\r\nok", false},
	{"head of 300 KiB", "", okHead + "A: " + strings.Repeat("a", 300<<10) + "\r\nContent-Length: 2\r\n\r\nok", true},
	{"2000 fields", "", okHead + strings.Repeat("A: a\r\n", 2000) + "Content-Length: 2\r\n\r\nok", true},
	{"900 fields", "", okHead + strings.Repeat("A: a\r\n", 900) + "Content-Length: 2\r\n\r\nok", false},
	{"nothing", "", "", false},
}

// TestOdd compares odd answers with net/http's Transport: the outcome is the
// same, or ours is a refusal.
func TestOdd(t *testing.T) {
	for _, o := range oddities {
		t.Run(o.name, func(t *testing.T) {
			method := o.method
			if method == "" {
				method = "GET"
			}
			ours, theirs, err := both(t, method, o.answer)
			if o.strict {
				failed := ours.Failed || ours.BodyFail
				if !failed || theirs.Failed || theirs.BodyFail {
					t.Errorf("not only ours refuses:\nours   %+v (%v)\ntheirs %+v", ours, err, theirs)
				}
				if !errors.Is(err, ErrMalformed) {
					t.Errorf("error %v", err)
				}
				return
			}
			if !reflect.DeepEqual(ours, theirs) {
				t.Errorf("\nours   %+v (%v)\ntheirs %+v", ours, err, theirs)
			}
		})
	}
}

// scripted is a connection that gives an answer in pieces of a size, and can't
// be asked whether it is alive.
type scripted struct {
	net.Conn
	rest string
	size int
	gone bool
}

func (s *scripted) Read(p []byte) (int, error) {
	if s.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, s.rest[:min(s.size, len(s.rest))])
	s.rest = s.rest[n:]
	return n, nil
}

func (s *scripted) Write(p []byte) (int, error) { return len(p), nil }
func (s *scripted) Close() error                { s.gone = true; return nil }
func (s *scripted) SetDeadline(time.Time) error { return nil }

// TestPieces reads good answers that come in pieces of every size, into
// buffers of every size: what is seen must not depend on either.
func TestPieces(t *testing.T) {
	for name, answer := range golden {
		want, _ := observe(scriptedTransport(answer, len(answer)), newRequest(t, "GET", "http://h/", ""))
		if want.Failed || want.BodyFail {
			t.Fatalf("%s: %+v", name, want)
		}
		for piece := 1; piece <= len(answer); piece++ {
			for _, size := range []int{1, 2, 3, 7, 64, directRead - 1, directRead, 4096} {
				resp, err := scriptedTransport(answer, piece).RoundTrip(newRequest(t, "GET", "http://h/", ""))
				if err != nil {
					t.Fatalf("%s in pieces of %d: %v", name, piece, err)
				}
				got, err := readAll(resp.Body, size)
				if err != nil || got != want.Body || !reflect.DeepEqual(resp.Trailer, want.Trailer) {
					t.Fatalf("%s in pieces of %d read by %d: %q, %v, %v", name, piece, size, got, err, resp.Trailer)
				}
			}
		}
	}
}

func scriptedTransport(answer string, piece int) *Transport {
	return New(Config{Dial: dialTo(&scripted{rest: answer, size: piece}), MaxIdle: -1})
}

func readAll(r io.Reader, size int) (string, error) {
	var b strings.Builder
	p := make([]byte, size)
	for {
		n, err := r.Read(p)
		b.Write(p[:n])
		if err == io.EOF {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), fmt.Errorf("after %d: %w", b.Len(), err)
		}
	}
}
