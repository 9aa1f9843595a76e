//go:build linux

package h1

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// attack is one entry of testdata/smuggling.txt.
type attack struct {
	name, verdict string
	seen          int
	raw           string
}

func corpus(t testing.TB) (all []attack) {
	t.Helper()
	text, err := os.ReadFile("testdata/smuggling.txt")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '=':
			part := strings.Split(line[2:], " | ")
			if len(part) != 3 {
				t.Fatalf("line %d: %q", i+1, line)
			}
			seen, err := strconv.Atoi(part[2])
			if err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
			all = append(all, attack{name: part[0], verdict: part[1], seen: seen})
		default:
			s, err := strconv.Unquote(line)
			if err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
			all[len(all)-1].raw += s
		}
	}
	return all
}

// TestSmuggling sends each attack in one piece, and byte by byte.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	var where atomic.Value
	where.Store("")
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if seen.Add(1); r.URL.Path == "/evil" || r.Header.Get("X-Evil") != "" {
			t.Errorf("%s: the handler saw %s %s %v", where.Load(), r.Method, r.URL, r.Header)
		}
		_, _ = io.Copy(io.Discard, r.Body)
	})
	all := corpus(t)
	if len(all) < 60 {
		t.Errorf("%d attacks only", len(all))
	}
	for _, a := range all {
		for _, piece := range []int{len(a.raw), 1, 7} {
			if piece == 1 && len(a.raw) > 400 {
				continue
			}
			where.Store(a.name)
			seen.Store(0)
			before := s.Stats()
			answers := s.attack(a.raw, piece)
			within(t, 3*time.Second, a.name+": connection closed", func() bool { return s.Stats().Open == 0 })
			if got := tell(before, s.Stats(), answers); got != a.verdict {
				t.Errorf("%s: %s, want %s\n%s", a.name, got, a.verdict, answers)
			}
			if int(seen.Load()) != a.seen {
				t.Errorf("%s: the handler saw %d requests, want %d", a.name, seen.Load(), a.seen)
			}
		}
	}
}

// attack sends raw in pieces and is all that comes back.
func (s *server) attack(raw string, piece int) []byte {
	p := s.dial()
	defer p.Close()
	for len(raw) > 0 {
		n := min(piece, len(raw))
		if _, err := io.WriteString(p.TCPConn, raw[:n]); err != nil {
			break // refused meanwhile
		}
		raw = raw[n:]
	}
	_ = p.CloseWrite()
	b, _ := io.ReadAll(p.br)
	return b
}

// tell is the verdict that the server's counts and its last answer show.
func tell(before, after Stats, answers []byte) string {
	var v []string
	for range after.Served - before.Served {
		v = append(v, "fast")
	}
	for i := range after.Handed {
		for range after.Handed[i] - before.Handed[i] {
			v = append(v, "handed")
		}
	}
	if after.Refused > before.Refused {
		at := bytes.LastIndex(answers, []byte("HTTP/1.1 "))
		v = append(v, fmt.Sprintf("refused %s", answers[at+9:at+12]))
	}
	return strings.Join(v, " ")
}
