package sse

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

const bom = "\uFEFF"

// vectors are streams with the events a client hears of: name|data. Most are
// after the examples and rules of the standard.
var vectors = []struct{ name, stream, events string }{
	{"nothing", "", ""},
	{"stock ticker", "data: YHOO\ndata: +2\ndata: 10\n\n", "|YHOO\n+2\n10"},
	{
		"four blocks", ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
		"|first event;|second event;| third event",
	},
	{"empty data", "data\n\ndata\ndata\n\ndata:", "|;|\n;tail:|"},
	{"space after the colon", "data:test\n\ndata: test\n\n", "|test;|test"},
	{"named", "event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n", "add|73857293;remove|2153"},
	{"last name wins", "event: a\nevent: b\ndata: x\n\n", "b|x"},
	{"name is not carried on", "event: a\n\ndata: x\n\n", "|x"},
	{"name taken back", "event: a\nevent\ndata: x\n\n", "|x"},
	{"CR", "data: a\rdata: b\r\rdata: c\r\r", "|a\nb;|c"},
	{"CRLF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", "|a\nb;|c"},
	{"mixed", "data: a\rdata: b\ndata: c\r\n\r\rdata: d\n\r\n", "|a\nb\nc;|d"},
	{"LF CR is two", "data: a\n\rdata: b\n\n", "|a;|b"},
	{"mark", bom + "data: a\n\n", "|a"},
	{"mark twice", bom + bom + "data: a\n\n", ""},
	{"mark later", "data: a\n\n" + bom + "data: b\n\n", "|a"},
	{"mark in data", "data: " + bom + "a\n\n", "|" + bom + "a"},
	{"part of a mark", "\xEF\xBBdata: a\n\ndata: b\n\n", "|b"},
	{"mark and blanks", bom + "\n\ndata: a\n\n", "|a"},
	{"comments", ":\n: x\n:data: y\ndata: a\n:z\n\n", "|a"},
	{"unknown fields", "dat: x\ndatas: x\ndata x\nData: x\n data: x\ndata : x\neventx: y\nretryretry\n\ndata: a\n\n", "|a"},
	{"colons", "data::a: b\n\n", "|:a: b"},
	{"tab is no space", "data:\ta\n\n", "|\ta"},
	{"NUL", "data: a\x00b\n\n", "|a\x00b"},
	{"cut in a line", "data: a\n\ndata: b", "|a;tail:|b"},
	{"cut after a line", "event: x\ndata: b\r", "tail:x|b"},
	{"cut in a comment", "data: a\n\n: b", "|a"},
	{"cut in a name", "data: a\ndat", "tail:|a"},
	{"cut in a mark", "\xEF\xBB", ""},
	{"only a name", "event: x\n", ""},
}

// heard is the list of events of a stream, in the notation of vectors.
func heard(t *testing.T, stream string, chunk int) string {
	var s Scanner
	blocks, tail, _ := relay(t, &s, []byte(stream), func() int { return chunk })
	var events []string
	for i, b := range blocks {
		if !b.hasData() {
			continue
		}
		event := b.name + "|" + strings.TrimPrefix(b.data, "data ")
		if tail && i == len(blocks)-1 {
			event = "tail:" + event
		}
		events = append(events, event)
	}
	return strings.Join(events, ";")
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		for chunk := 1; chunk <= len(v.stream)+1; chunk++ {
			if got := heard(t, v.stream, chunk); got != v.events {
				t.Errorf("%s, %d bytes a read: %q, want %q", v.name, chunk, got, v.events)
			}
		}
		checkSoonest(t, []byte(v.stream))
	}
}

// captured are streams as the providers send them.
var captured = []string{
	"data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\ndata: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\n\n" +
		"data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"total_tokens\":9}}\n\ndata: [DONE]\n\n",
	"event: message_start\ndata: {\"type\":\"message_start\"}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
	": OPENROUTER PROCESSING\n\ndata: {\"a\":1}\n\n: keep\n\nid: 7\nretry: 10\ndata: x\ndata: y\n\n",
}

// Stray blank lines at every place where a block begins change no event, and the
// blank line that ends an event may be any.
func TestStrayBlankLines(t *testing.T) {
	for _, stream := range captured {
		blocks := strings.SplitAfter(stream, "\n\n")
		want := heard(t, stream, len(stream))
		for at := range blocks {
			for _, blank := range []string{"\n", "\n\n", "\r\n", "\r", "\r\r\n\n\r", ": c\n\n", "\n: c\r\r"} {
				for _, newline := range []string{"\n", "\r\n", "\r"} {
					before := strings.ReplaceAll(strings.Join(blocks[:at], ""), "\n", newline)
					if strings.HasSuffix(before, "\r") && strings.HasPrefix(blank, "\n") {
						before += "\r" // or the LF would be part of the CR's line end
					}
					strayed := before + blank + strings.Join(blocks[at:], "")
					for _, chunk := range []int{1, 2, 3, 7, len(strayed)} {
						if got := heard(t, strayed, chunk); got != want {
							t.Fatalf("%q: %q, want %q", strayed, got, want)
						}
					}
				}
			}
			if at == len(blocks)-1 {
				short := strings.TrimRight(stream, "\n")
				if got := strings.Replace(heard(t, short, 5), "tail:", "", 1); got != want {
					t.Errorf("without the last blank line: %q, want %q", got, want)
				}
			}
		}
	}
}

func TestSizes(t *testing.T) {
	stream := "\n\r\n\r: c\n\ndata: a\r\n\r\n\n"
	var s Scanner
	var got []string
	for rest := []byte(stream); ; {
		ev, ok := s.Next(rest)
		if !ok {
			break
		}
		got = append(got, fmt.Sprint(ev.Size, ev.HasData))
		rest = rest[ev.Size:]
	}
	if s := strings.Join(got, ";"); s != "1 false;2 false;1 false;5 false;11 true;1 false" {
		t.Error(s)
	}
}

// The last byte of an event is enough; an LF that comes after is part of it.
func TestCarriageReturnAtTheEnd(t *testing.T) {
	var s Scanner
	ev, ok := s.Next([]byte("data: a\r\r"))
	if !ok || string(ev.Data) != "a" || ev.Size != 9 {
		t.Fatal(ev, ok)
	}
	if ev, ok = s.Next([]byte("\n")); ok {
		t.Fatal("the LF of a CRLF counted as a blank line", ev)
	}
	if ev, ok = s.Next([]byte("\ndata: b\r\n\r")); !ok || string(ev.Data) != "b" || ev.Size != 11 {
		t.Fatal(ev, ok)
	}
	if ev, ok = s.Next([]byte("\n\n")); !ok || ev.HasData || ev.Size != 2 {
		t.Fatal(ev, ok)
	}
	if ev, ok = s.Tail(nil); ok || ev.Size != 0 {
		t.Fatal(ev, ok)
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct{ stream, id, retry string }{
		{"data: x\n\n", "-", "-"},
		{"id: 1\nretry: 3000\ndata: x\n\n", "1", "3000"},
		{"id\nretry\n\n", "", "-"},
		{"id: 1\nid:\n\n", "", "-"},
		{"id: 1\nid: 2\x00\n\n", "1", "-"},
		{"retry: 10\nretry: 1s\nretry: -1\nretry: 1.5\nretry:  1\nretry: \n\n", "-", "10"},
		{"retry:007\n\n", "-", "007"},
	} {
		var s Scanner
		ev, ok := s.Next([]byte(c.stream))
		show := func(b []byte) string {
			if b == nil {
				return "-"
			}
			return string(b)
		}
		if !ok || show(ev.ID) != c.id || show(ev.Retry) != c.retry {
			t.Errorf("%q: id %q retry %q", c.stream, show(ev.ID), show(ev.Retry))
		}
	}
}

// An event points into the buffer, and an append to it does not write there.
func TestEventsPointIntoTheBuffer(t *testing.T) {
	buf := []byte("event: n\nid: i\nretry: 1\ndata: abc\n\ndata: d\n\n")
	var s Scanner
	ev, _ := s.Next(buf)
	if &ev.Data[0] != &buf[30] {
		t.Error("the data was copied")
	}
	for _, b := range [][]byte{ev.Name, ev.ID, ev.Retry, ev.Data} {
		_ = append(b, "!!!!"...)
	}
	if !bytes.HasSuffix(buf, []byte("abc\n\ndata: d\n\n")) {
		t.Errorf("%q", buf)
	}
}

func TestTailWithoutNext(t *testing.T) {
	var s Scanner
	ev, ok := s.Tail([]byte("data: a\ndata: b"))
	if !ok || string(ev.Data) != "a\nb" || ev.Size != 15 {
		t.Error(ev, ok)
	}
	s.Reset()
	if ev, ok = s.Tail([]byte("data: a\n\ndata: b")); !ok || string(ev.Data) != "a" || ev.Size != 9 {
		t.Error(ev, ok)
	}
}

// feed gives one event in small reads, the buffer growing in place, and returns
// how long the scanner took.
func feed(t *testing.T, stream []byte, read int) time.Duration {
	var s Scanner
	start := time.Now()
	for end := read; ; end += read {
		ev, ok := s.Next(stream[:min(end, len(stream))])
		if ok != (end >= len(stream)) {
			t.Fatalf("event %v after %d of %d bytes", ok, end, len(stream))
		}
		if ok {
			if ev.Size != len(stream) {
				t.Fatal(ev.Size)
			}
			return time.Since(start)
		}
	}
}

// A huge event in small reads costs what its bytes cost. Looking at everything
// again at each of the 2048 reads would be a thousand times as much, so the
// bound of fifty leaves room for a slow machine.
func TestLinear(t *testing.T) {
	const size = 8 << 20
	for name, stream := range map[string][]byte{
		"one line": append(append([]byte("data: "), bytes.Repeat([]byte("x"), size)...), "\n\n"...),
		"lines":    append(bytes.Repeat([]byte("data: 0123456789\r"), size/17), '\r'),
		"comments": append(bytes.Repeat([]byte(":\n"), size/2), '\n'),
		"no colon": append(bytes.Repeat([]byte("x"), size), "\n\n"...),
	} {
		whole, pieces := feed(t, stream, len(stream)), feed(t, stream, 4096)
		if pieces > 50*whole+100*time.Millisecond {
			t.Errorf("%s: %v in one read, %v in reads of 4 KiB", name, whole, pieces)
		}
	}
}

// One huge event does not keep its memory for the life of the stream.
func TestScratchIsLetGo(t *testing.T) {
	var s Scanner
	if ev, ok := s.Next(bytes.Repeat([]byte("data: 0123456789\n"), 1<<16)); ok {
		t.Fatal(ev.Size)
	}
	stream := append(bytes.Repeat([]byte("data: 0123456789\n"), 1<<16), '\n')
	ev, ok := s.Next(stream)
	if !ok || len(ev.Data) != 1<<16*11-1 || s.joined != nil {
		t.Error(ok, len(ev.Data), cap(s.joined))
	}
}

func TestWriter(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{string(AppendEvent([]byte(">"), "", []byte("a"))), ">data: a\n\n"},
		{string(AppendEvent(nil, "n", nil)), "event: n\ndata: \n\n"},
		{string(AppendEvent(nil, "", []byte("a\nb\r\nc\rd\n"))), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		{string(AppendEvent(nil, "a\r\ndata: x", []byte("\r\n"))), "event: adata: x\ndata: \ndata: \n\n"},
		{string(AppendComment([]byte(">"), "ping")), ">: ping\n\n"},
		{string(AppendComment(nil, "a\ndata: b\r\n\rc")), ": a\n: data: b\n: \n: c\n\n"},
		{string(AppendComment(nil, "")), ": \n\n"},
		{string(AppendRetry([]byte(">"), 3000)), ">retry: 3000\n"},
		{string(AppendRetry(nil, -1)), "retry: 0\n"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func seeds() []string {
	list := append([]string{
		"\xEF\xBB", bom, "\r\n\r\n", "\r\r\n\n\r", "data\r\n\rdata: x\r\r\n", "data: 12345678\ndata: 1234567\r\n\r\n\n",
	}, captured...)
	for _, v := range vectors {
		list = append(list, v.stream)
	}
	return list
}
