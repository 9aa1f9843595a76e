package sse

import "bytes"

// Scanner finds the blocks of one stream. The zero value is ready.
//
// It remembers how far it has looked, so the cost of a stream is linear in its
// bytes however small the reads are. How long a block may become is the caller's
// limit to set, by the length of the buffer it keeps.
type Scanner struct {
	begun bool // the byte order mark has been dealt with
	cr    bool // the byte before pos was a CR; an LF at pos belongs to it
	block block
	// joined holds the data of blocks with several data lines.
	joined []byte
}

// block is what is known of the block that begins the buffer. It holds offsets,
// because the buffer may move while it grows.
type block struct {
	pos       int // everything before it has been looked at
	line      int // where the line begins in which pos lies
	dataLines int
	name      span
	data      span // the first data line
	id        span
	retry     span
}

type span struct {
	start, end int
	set        bool
}

func (s span) of(buf []byte) []byte {
	if !s.set {
		return nil
	}
	return buf[s.start:s.end:s.end]
}

// keepJoined is the most scratch memory, in bytes, that outlives its event: one
// huge event must not stay with a stream that lasts for hours.
const keepJoined = 16 << 10

// byteOrderMark may begin a stream, and only a stream.
const byteOrderMark = "\xEF\xBB\xBF"

// Reset makes the scanner ready for another stream.
func (s *Scanner) Reset() {
	*s = Scanner{joined: s.joined[:0]}
}

// Next looks for the first whole block in buf, which begins with the first byte
// of the stream that has not been consumed. With ok, the caller consumes
// ev.Size bytes and calls again with what follows them. Without ok more bytes
// are needed, and the caller calls again with the same bytes and more after
// them.
//
// A line that ends with a CR at the end of buf has ended: no event waits for the
// byte after its last one. If that byte turns out to be an LF it belongs to the
// CR, and the next block begins with it.
func (s *Scanner) Next(buf []byte) (ev Event, ok bool) {
	if s.block.pos > len(buf) {
		s.block = block{} // not the buffer it was: look at it afresh
	}
	if !s.begun && !s.begin(buf) {
		return Event{}, false
	}
	for {
		s.skipLF(buf)
		b := &s.block
		if b.pos = lineEnd(buf, b.pos); b.pos == len(buf) {
			return Event{}, false
		}
		line := buf[b.line:b.pos]
		s.cr = buf[b.pos] == '\r'
		b.pos++
		if len(line) == 0 {
			s.skipLF(buf)
			return s.take(buf), true
		}
		s.field(buf, line)
		b.line = b.pos
	}
}

// Tail looks at what is left when the stream has ended and Next has returned
// false: the last event if its blank line, or its last line end, is missing.
// Clients of the standard drop such an event; one that tolerates the servers
// that forget the blank line reads it, at the risk that it was cut short. ok is
// false if what is left holds no data field, and so no event.
func (s *Scanner) Tail(buf []byte) (ev Event, ok bool) {
	if ev, ok = s.Next(buf); ok {
		return ev, ev.HasData
	}
	s.begun = true // what could still become a byte order mark is none
	if line := buf[s.block.line:]; len(line) > 0 {
		s.field(buf, line)
	}
	s.block.pos = len(buf)
	ev = s.take(buf)
	return ev, ev.HasData
}

// begin skips a byte order mark, and is false while buf may still begin with
// one.
func (s *Scanner) begin(buf []byte) bool {
	n := min(len(buf), len(byteOrderMark))
	if string(buf[:n]) == byteOrderMark[:n] {
		if n < len(byteOrderMark) {
			return false
		}
		s.block.pos, s.block.line = n, n
	}
	s.begun = true
	return true
}

// skipLF passes over the LF of a CRLF whose CR has ended a line already.
func (s *Scanner) skipLF(buf []byte) {
	b := &s.block
	if !s.cr || b.pos == len(buf) {
		return
	}
	if s.cr = false; buf[b.pos] == '\n' {
		b.pos++
		b.line = b.pos
	}
}

// field takes in one line that is not blank; it is the part of buf that begins
// at s.block.line.
func (s *Scanner) field(buf, line []byte) {
	const longest = len("event")
	b := &s.block
	colon := bytes.IndexByte(line[:min(len(line), longest+1)], ':')
	name, at := line, len(line)
	if colon >= 0 {
		name, at = line[:colon], colon+1
		if at < len(line) && line[at] == ' ' {
			at++
		}
	}
	value := span{b.line + at, b.line + len(line), true}
	switch string(name) {
	case "data":
		s.addData(buf, value)
	case "event":
		b.name = value
	case "id":
		if bytes.IndexByte(value.of(buf), 0) < 0 {
			b.id = value
		}
	case "retry":
		if allDigits(value.of(buf)) {
			b.retry = value
		}
	}
}

func (s *Scanner) addData(buf []byte, value span) {
	b := &s.block
	switch b.dataLines {
	case 0:
		b.data = value
	case 1:
		s.joined = append(s.joined[:0], b.data.of(buf)...)
		fallthrough
	default:
		s.joined = append(append(s.joined, '\n'), value.of(buf)...)
	}
	b.dataLines++
}

// take makes an event of the block up to pos and forgets it.
func (s *Scanner) take(buf []byte) Event {
	b := &s.block
	ev := Event{
		Name:    b.name.of(buf),
		Data:    b.data.of(buf),
		ID:      b.id.of(buf),
		Retry:   b.retry.of(buf),
		HasData: b.dataLines > 0,
		Size:    b.pos,
	}
	if b.dataLines > 1 {
		ev.Data = s.joined[:len(s.joined):len(s.joined)]
	}
	if cap(s.joined) > keepJoined {
		s.joined = nil // the event keeps it as long as it is needed
	}
	*b = block{}
	return ev
}

func allDigits(b []byte) bool {
	for _, c := range b {
		if c-'0' > 9 {
			return false
		}
	}
	return len(b) > 0
}
