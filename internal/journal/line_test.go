package journal

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzAppendJSON(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\b\f\n\r\t\x00\x1f\x7f", "\xff\xc3", "é漢🎉", "\u2028\u2029", "<a>&", "\ufffd", "\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			t.Skip()
		}
		got := append(appendJSON(nil, s), '\n')
		if utf8.ValidString(s) && !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%q: got %s, want %s", s, got, want.Bytes())
		}
		// Go's versions differ in how they spell U+FFFD, but mean the same.
		var a, b string
		if err := json.Unmarshal(got, &a); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if err := json.Unmarshal(want.Bytes(), &b); err != nil || a != b {
			t.Errorf("%q: got %q, want %q (%v)", s, a, b, err)
		}
	})
}

func FuzzLine(f *testing.F) {
	f.Add("id", "model \" \n", "error\xff", "agent\u2028", false)
	f.Fuzz(func(t *testing.T, id, asked, finish, agent string, text bool) {
		l := line{text: text}
		r := streamed(id)
		r.Asked, r.FinishReason, r.Agent = asked, finish, agent
		l.begin(start, r.level(), "request", "headgate", r.ID)
		l.hex("trace_id", r.Trace[:])
		l.hex("span_id", r.Span[:])
		l.what(r)
		l.result(&Plan{}, r)
		l.timing(r)
		l.end()
		if bytes.IndexByte(l.b, '\n') != len(l.b)-1 {
			t.Errorf("more than one line: %q", l.b)
		}
		if !text {
			parse(t, string(l.b))
		}
	})
}

func TestAppendTime(t *testing.T) {
	for _, at := range []time.Time{
		start, {}, time.Unix(0, 0), time.Date(1999, 12, 31, 23, 59, 59, 999_999_999, time.FixedZone("x", 3600)),
	} {
		if got, want := string(appendTime(nil, at)), at.UTC().Format("2006-01-02T15:04:05.000Z"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
