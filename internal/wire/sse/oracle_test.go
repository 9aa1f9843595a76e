package sse

import (
	"bytes"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
)

// oracle reads a whole stream, slowly and line by line as the standard has it,
// and returns the blocks; the last is the unfinished one if there is one.
// finished is how many have their blank line.
func oracle(stream string) (blocks []plainBlock, finished int) {
	stream = strings.TrimPrefix(stream, "\uFEFF")
	var b plainBlock
	pending := false
	for stream != "" {
		line := stream
		end := strings.IndexAny(stream, "\r\n")
		switch {
		case end < 0:
			stream = ""
		case strings.HasPrefix(stream[end:], "\r\n"):
			line, stream = stream[:end], stream[end+2:]
		default:
			line, stream = stream[:end], stream[end+1:]
		}
		if line == "" {
			blocks, b, pending = append(blocks, b.dispatched()), plainBlock{}, false
			continue
		}
		b.process(line)
		pending = true
	}
	finished = len(blocks)
	if pending {
		blocks = append(blocks, b.dispatched())
	}
	return blocks, finished
}

// plainBlock is an event in strings; absent fields are "-".
type plainBlock struct {
	name, data string
	id, retry  *string
}

func (b *plainBlock) process(line string) {
	if strings.HasPrefix(line, ":") {
		return
	}
	field, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch field {
	case "event":
		b.name = value
	case "data":
		b.data += value + "\n"
	case "id":
		if !strings.Contains(value, "\x00") {
			b.id = &value
		}
	case "retry":
		if value != "" && strings.Trim(value, "0123456789") == "" {
			b.retry = &value
		}
	}
}

// dispatched is the block as it is dispatched: the last LF is taken off the data.
// Before that, data is empty exactly if there was no data field.
func (b plainBlock) dispatched() plainBlock {
	if b.data == "" {
		b.data = "no data"
		return b
	}
	b.data = "data " + strings.TrimSuffix(b.data, "\n")
	return b
}

func (b plainBlock) String() string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return fmt.Sprintf("%q", *s)
	}
	return fmt.Sprintf("%q %q %s %s", b.name, b.data, text(b.id), text(b.retry))
}

func (b plainBlock) hasData() bool { return b.data != "no data" }

func fromEvent(ev Event) plainBlock {
	text := func(b []byte) *string {
		if b == nil {
			return nil
		}
		s := string(b)
		return &s
	}
	b := plainBlock{name: string(ev.Name), data: "no data", id: text(ev.ID), retry: text(ev.Retry)}
	if ev.HasData {
		b.data = "data " + string(ev.Data)
	}
	return b
}

// relay feeds a stream as a relay would, in reads of the given sizes, through a
// buffer that moves at every read. It returns the blocks, the tail if it is an
// event, and what was consumed.
func relay(t *testing.T, s *Scanner, stream []byte, size func() int) (blocks []plainBlock, tail bool, consumed []byte) {
	var buf []byte
	for len(stream) > 0 {
		n := min(max(size(), 1), len(stream))
		old := buf
		buf = append(bytes.Clone(buf), stream[:n]...)
		for i := range old { // nobody may hold on to a buffer that was left
			old[i] = '\n'
		}
		stream = stream[n:]
		for {
			ev, ok := s.Next(buf)
			if !ok {
				break
			}
			if ev.Size <= 0 || ev.Size > len(buf) {
				t.Fatalf("size %d of %d", ev.Size, len(buf))
			}
			blocks = append(blocks, fromEvent(ev))
			consumed = append(consumed, buf[:ev.Size]...)
			buf = buf[ev.Size:]
		}
	}
	ev, ok := s.Tail(buf)
	if ev.Size != len(buf) {
		t.Fatalf("tail of %d, want %d", ev.Size, len(buf))
	}
	if ok {
		blocks = append(blocks, fromEvent(ev))
	}
	return blocks, ok, append(consumed, buf...)
}

// check compares the scanner with the oracle.
func check(t *testing.T, s *Scanner, stream []byte, size func() int) {
	t.Helper()
	want, finished := oracle(string(stream))
	if len(want) > finished && !want[finished].hasData() {
		want = want[:finished]
	}
	got, tail, consumed := relay(t, s, stream, size)
	if !bytes.Equal(consumed, stream) {
		t.Fatalf("%q came out as %q", stream, consumed)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || tail != (len(want) > finished) {
		t.Fatalf("%q\ngot  %v, tail %v\nwant %v, finished %d", stream, got, tail, want, finished)
	}
}

func FuzzScanner(f *testing.F) {
	for i, s := range seeds() {
		f.Add([]byte(s), int64(i))
	}
	f.Fuzz(checkSplits)
}

// checkSplits compares the scanner with the oracle however the stream is cut.
func checkSplits(t *testing.T, stream []byte, seed int64) {
	var s Scanner
	check(t, &s, stream, func() int { return len(stream) })
	s.Reset()
	check(t, &s, stream, func() int { return 1 })
	random, most := rand.New(rand.NewSource(seed)), 1+int(uint64(seed)%40)
	for range 4 {
		s.Reset()
		check(t, &s, stream, func() int { return 1 + random.Intn(most) })
	}
	checkSoonest(t, stream[:min(len(stream), 300)])
}

// TestRandomStreams does more than the fuzzer where streams are made of what
// event streams are made of.
func TestRandomStreams(t *testing.T) {
	words := []string{
		"\n", "\r", "\r\n", "\n", "\r", "\n\n", "\r\r", "data", "data:", "data: a", "data:  b", "event", "event: e", "id: 1", "id", "id:\x00",
		"retry: 5", "retry: x", ":", ": comment", " ", "x", "datax: y", bom, "\xEF", "\xBB", "data: 0123456789abcdef", "\x00",
	}
	random := rand.New(rand.NewSource(1))
	for range 10_000 {
		var stream []byte
		for range random.Intn(16) {
			stream = append(stream, words[random.Intn(len(words))]...)
		}
		checkSplits(t, stream, random.Int63())
	}
}

// checkSoonest feeds one byte at a time and wants each block at its last byte.
func checkSoonest(t *testing.T, stream []byte) {
	var s Scanner
	start, got := 0, 0
	for end := 1; end <= len(stream); end++ {
		for {
			ev, ok := s.Next(stream[start:end])
			if !ok {
				break
			}
			start += ev.Size
			got++
		}
		if _, want := oracle(string(stream[:end])); got != want {
			t.Fatalf("%q: %d blocks, want %d", stream[:end], got, want)
		}
	}
}

func FuzzMisuse(f *testing.F) {
	f.Add([]byte("data: a\ndata: b\n\n"), []byte("x"), []byte("\n"))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		var s Scanner // no promise but that it does not panic and stays in the buffer
		for _, buf := range [][]byte{a, b, c, b, a} {
			if ev, _ := s.Next(buf); ev.Size > len(buf) {
				t.Fatal(ev.Size)
			}
		}
		if ev, _ := s.Tail(b); ev.Size > len(b) {
			t.Fatal(ev.Size)
		}
		s.Tail(c)
		s.Next(a)
	})
}

func FuzzWriter(f *testing.F) {
	f.Add("", []byte(""), "ping", int64(3000), int64(1))
	f.Add("delta", []byte("{\"a\":\n 1}\r\n\r"), "a\r\nb\rdata: x", int64(-1), int64(2))
	f.Add(" a\nb", []byte(" :x\n\n"), "", int64(0), int64(3))
	f.Fuzz(func(t *testing.T, name string, data []byte, comment string, ms, seed int64) {
		stream := AppendComment(nil, comment)
		stream = AppendRetry(stream, ms)
		stream = AppendEvent(stream, name, data)
		stream = AppendEvent(stream, "", data)
		random := rand.New(rand.NewSource(seed))
		var s Scanner
		got, tail, _ := relay(t, &s, stream, func() int { return 1 + random.Intn(20) })
		lf := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
		retry := fmt.Sprint(max(ms, 0))
		want := []plainBlock{
			{data: "no data"},
			{name: strings.NewReplacer("\r", "", "\n", "").Replace(name), data: "data " + lf, retry: &retry},
			{data: "data " + lf},
		}
		if tail || !slices.EqualFunc(got, want, func(a, b plainBlock) bool { return a.String() == b.String() }) {
			t.Fatalf("%q\ngot  %v\nwant %v", stream, got, want)
		}
	})
}
