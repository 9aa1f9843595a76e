package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// FuzzResponse compares what is made of an answer with http.ReadResponse: what
// is taken here is taken there, with the same head and the same body; where
// ours fails, it fails as documented.
func FuzzResponse(f *testing.F) {
	for _, a := range golden {
		f.Add([]byte(a), uint8(200), false)
	}
	for _, o := range oddities {
		if len(o.answer) < 2000 {
			f.Add([]byte(o.answer), uint8(3), o.method == "HEAD")
		}
	}
	f.Fuzz(func(t *testing.T, answer []byte, piece uint8, head bool) {
		if len(answer) > 64<<10 {
			return
		}
		method := "GET"
		if head {
			method = "HEAD"
		}
		conn := &scripted{rest: string(answer), size: int(piece) + 1}
		tr := New(Config{Dial: dialTo(conn), MaxIdle: -1})
		req, _ := http.NewRequest(method, "http://h/", nil)
		resp, err := tr.roundTrip(req, nil)
		if err != nil {
			if !conn.gone || !errors.Is(err, ErrMalformed) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%v", err)
			}
			return
		}
		body, err := io.ReadAll(resp.Body)
		if !conn.gone {
			t.Fatal("the connection was left open")
		}
		compareWithStandard(t, answer, req, resp, string(body), err)
	})
}

func compareWithStandard(t *testing.T, answer []byte, req *http.Request, resp *http.Response, body string, err error) {
	r := bufio.NewReaderSize(bytes.NewReader(answer), 64<<10)
	var std *http.Response
	for {
		var serr error
		if std, serr = http.ReadResponse(r, req); serr != nil {
			t.Fatalf("taken, but net/http: %v", serr)
		}
		if std.StatusCode < 100 || std.StatusCode > 199 {
			break
		}
	}
	stdBody, serr := io.ReadAll(std.Body)
	if err == nil && (serr != nil || body != string(stdBody)) {
		t.Fatalf("body %q, but net/http: %q, %v", body, stdBody, serr)
	}
	if err != nil && !strings.HasPrefix(body, string(stdBody)) && !strings.HasPrefix(string(stdBody), body) {
		t.Fatalf("body %q, net/http: %q", body, stdBody)
	}
	for _, h := range []http.Header{resp.Header, std.Header} {
		delete(h, "Connection") // theirs loses it
	}
	if _, ok := resp.Header["Cache-Control"]; !ok {
		delete(std.Header, "Cache-Control") // made up from Pragma
	}
	if resp.Status != std.Status || resp.StatusCode != std.StatusCode || resp.Proto != std.Proto ||
		resp.ContentLength != std.ContentLength || resp.Close != std.Close ||
		!reflect.DeepEqual(resp.TransferEncoding, std.TransferEncoding) || !reflect.DeepEqual(resp.Header, std.Header) {
		t.Fatalf("\nours   %+v\ntheirs %+v", resp, std)
	}
	if err == nil {
		for _, name := range []string{"Content-Length", "Transfer-Encoding", "Trailer"} {
			delete(std.Trailer, name) // not taken from a trailer section
		}
		if len(resp.Trailer)+len(std.Trailer) > 0 && !reflect.DeepEqual(resp.Trailer, std.Trailer) {
			t.Fatalf("trailer %v, net/http: %v", resp.Trailer, std.Trailer)
		}
	}
}

// FuzzChunks compares the decoder, fed and read in pieces, with net/http's.
func FuzzChunks(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "a;x=y\r\n0123456789\r\n0\r\nA: b\r\n\r\n", "5 \r\nhello\r\n00\r\n\r\nrest",
		"fffffffffffffff\r\n", "5\r\nhelloX0\r\n\r\n", "1\nx", strings.Repeat("1\r\nx\r\n", 50) + "0\r\n\r\n",
		"2;" + strings.Repeat("x", 2000) + "\r\nab\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s), uint8(3), uint8(2))
	}
	f.Fuzz(func(t *testing.T, coded []byte, in, out uint8) {
		got, rest, done, err := dechunkInPieces(coded, int(in)+1, int(out)+1)
		place, restPlace, donePlace, errPlace := dechunkInPlace(coded, int(in)+1)
		if got != place || done != donePlace || (err == nil) != (errPlace == nil) || done && rest != restPlace {
			t.Fatalf("in pieces %q %v %v, in place %q %v %v", got, done, err, place, donePlace, errPlace)
		}
		r := bufio.NewReaderSize(io.MultiReader(strings.NewReader(
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), bytes.NewReader(coded)), 64<<10)
		resp, herr := http.ReadResponse(r, nil)
		if herr != nil {
			t.Fatal(herr)
		}
		want, werr := io.ReadAll(resp.Body)
		if done {
			left, _ := io.ReadAll(r)
			if _, perr := parseFields(trailerOf(coded)); perr == nil && (werr != nil || got != string(want) || rest != string(left)) {
				t.Fatalf("%q and %q left; net/http: %q, %v, and %q left", got, rest, want, werr, left)
			}
			return
		}
		if !strings.HasPrefix(string(want), got) && !strings.HasPrefix(got, string(want)) {
			t.Fatalf("%q, net/http: %q", got, want)
		}
	})
}

// trailerOf gives the trailer section that the decoder collected.
func trailerOf(coded []byte) string {
	var d chunks
	_, _, _ = d.decode(bytes.Clone(coded), bytes.Clone(coded))
	return string(d.trailer) + "\r\n"
}

func dechunkInPieces(coded []byte, in, out int) (got, rest string, done bool, err error) {
	var d chunks
	for len(coded) > 0 && !d.done() && err == nil {
		p := make([]byte, out)
		used, n, e := d.decode(p, coded[:min(in, len(coded))])
		got, coded, err = got+string(p[:n]), coded[used:], e
	}
	return got, string(coded), d.done(), err
}

func dechunkInPlace(coded []byte, in int) (got, rest string, done bool, err error) {
	var d chunks
	for len(coded) > 0 && !d.done() && err == nil {
		p := bytes.Clone(coded[:min(in, len(coded))])
		used, n, e := d.decode(p, p)
		got, coded, err = got+string(p[:n]), coded[used:], e
		if used < len(p) && !d.done() && e == nil {
			return got, string(coded), false, io.ErrShortBuffer
		}
	}
	return got, string(coded), d.done(), err
}
