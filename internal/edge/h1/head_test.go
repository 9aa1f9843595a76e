//go:build linux

package h1

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// sorted is a head's lines, in the order of the alphabet behind the status.
func sorted(head string) []string {
	lines := strings.Split(head, "\r\n")
	slices.Sort(lines[1:])
	return lines
}

// Fields that are put make the same head as those of a map.
func TestHeadWithoutMap(t *testing.T) {
	fields := [][2]string{
		{"Content-Type", "application/json"}, {"Content-Length", "5"}, {"Date", "Mon, 30 Nov 2026 10:00:00 GMT"}, {"Vary", "Accept"}, {"Vary", "Accept-Encoding"},
		{"X-Split", "a\r\nX-Other: b"}, {"X Bad", "x"}, {"Connection", "X-Hop"}, {"X-Long", strings.Repeat("l", 6000)}, {"X-Blank", " v "},
	}
	for _, status := range []int{200, 404, 304} {
		plain, body, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) {
			for _, f := range fields {
				w.Header()[f[0]] = append(w.Header()[f[0]], f[1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "hello")
		})
		put, same, s := wire(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Blank", "v")
			r := w.(*response)
			r.Put("X-Early", "dropped")
			r.BeginHead(status)
			r.BeginHead(500) // too late, like a second WriteHeader
			for _, f := range fields {
				if f[0] == "X-Long" {
					r.PutLines([]byte(f[0]+": "+f[1]+"\r\n"), 1)
				} else if strings.HasPrefix(f[0], "X-S") || f[0] == "Vary" {
					r.PutBytes(f[0], []byte(f[1]))
				} else if f[0] != "X-Blank" {
					r.Put(f[0], f[1])
				}
			}
			if status == 404 {
				r.EndHead() // else the first Write does
			}
			_, _ = io.WriteString(w, "hello")
			r.Put("X-Late", "dropped")
			r.PutLines([]byte("X-Late: dropped\r\n"), 1)
		})
		if a, b := sorted(put), sorted(plain); !slices.Equal(a, b) || same != body {
			t.Errorf("%d: the head is\n%q, want\n%q; the body %q, want %q", status, a, b, same, body)
		}
		if log := s.log.String(); log != "" {
			t.Error(log)
		}
	}
}

// What ends a field is taken out wherever it stands, and nothing else.
func TestBlank(t *testing.T) {
	for c := range 256 {
		for n := range 20 {
			for at := range n {
				got := bytes.Repeat([]byte{'\t'}, n)
				got[at] = byte(c)
				want := slices.Clone(got)
				if c == '\r' || c == '\n' || c == 0 {
					want[at] = ' '
				}
				if blank(got); !bytes.Equal(got, want) {
					t.Fatalf("%q, want %q", got, want)
				}
			}
		}
	}
}

// Lines that a handler puts are as many as it says, or none.
func TestPutLines(t *testing.T) {
	for text, kept := range map[string]bool{
		"A: b\r\nB: \r\n": true, "A: b\nX: c\r\nB: d\r\n": false, "A: b\r\nX: c\r\nB: d\r\n": false, "A: b\rX: c\r\nB: d\r\n": false, "A: b\r\nB: c\n": false, "A: b\r\n": false,
	} {
		head, _, s := wire(t, func(w http.ResponseWriter, _ *http.Request) {
			r := w.(*response)
			r.BeginHead(200)
			r.PutLines([]byte(text), 2)
			r.EndHead()
		})
		if strings.Contains(head, "\r\n"+text) != kept || strings.Contains(head, "X: c") || kept == strings.Contains(s.log.String(), "one line each") {
			t.Errorf("%q makes the head %q, the log %q", text, head, s.log.String())
		}
	}
}

// A handler that fails within a head leaves nothing half-written.
func TestPanicInHead(t *testing.T) {
	head, body, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(*response).BeginHead(200)
		panic(http.ErrAbortHandler)
	})
	if head != "" || body != "" {
		t.Errorf("%q, %q", head, body)
	}
}
