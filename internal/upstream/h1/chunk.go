package h1

const (
	// maxChunkLine bounds a chunk's size with its extensions.
	maxChunkLine = 1024
	// maxTrailer bounds a trailer section.
	maxTrailer = 4 << 10
	// maxExcess bounds what a body may have of framing beyond twice its content
	// and 16 bytes a chunk: as in net/http, against senders that only cost.
	maxExcess = 16 << 10
	// maxDigits bounds a chunk's size, which must fit in an int64.
	maxDigits = 15
)

// chunks decodes a chunked body (RFC 9112, section 7.1). It can stop and go on
// at any byte, so it needs no buffer. Its zero value is at the start.
type chunks struct {
	state   chunkState
	digits  uint8
	line    int // bytes of the size line so far
	size    int64
	excess  int64
	trailer []byte // field lines
}

type chunkState uint8

const (
	inSize chunkState = iota
	inPad             // blanks after the size, which old servers send
	inExt
	inSizeLF
	inData
	inDataCR
	inDataLF
	inTrailerStart
	inTrailer
	inEndLF
	inDone
)

func (d *chunks) done() bool { return d.state == inDone }

// decode reads coded bytes from src and writes content to dst, which may be
// the same memory: content never overtakes its code. It stops when src is used
// up, dst is full, or the body has ended.
func (d *chunks) decode(dst, src []byte) (used, n int, err error) {
	for used < len(src) && d.state != inDone {
		if d.state == inData {
			k := copy(dst[n:], src[used:used+int(min(int64(len(src)-used), d.size))])
			if k == 0 {
				return used, n, nil // full
			}
			used, n, d.size = used+k, n+k, d.size-int64(k)
			if d.size == 0 {
				d.state = inDataCR
			}
			continue
		}
		if err := d.step(src[used]); err != nil {
			return used, n, err
		}
		used++
	}
	return used, n, nil
}

// step takes one byte of framing.
func (d *chunks) step(c byte) error {
	switch d.state {
	case inSize, inPad, inExt, inSizeLF:
		return d.sizeLine(c)
	case inDataCR:
		return d.expect(c, '\r', inDataLF)
	case inDataLF:
		return d.expect(c, '\n', inSize)
	case inTrailerStart:
		if c == '\r' {
			d.state = inEndLF
			return nil
		}
		d.state = inTrailer
		return d.trailerByte(c)
	case inTrailer:
		return d.trailerByte(c)
	case inEndLF:
		return d.expect(c, '\n', inDone)
	}
	return nil
}

func (d *chunks) expect(c, want byte, next chunkState) error {
	if c != want {
		return malformed("chunk without its CRLF")
	}
	d.state = next
	return nil
}

// sizeLine takes a byte of a chunk's size, extensions, and CRLF. Extensions
// are bounded and ignored.
func (d *chunks) sizeLine(c byte) error {
	if d.line++; d.line > maxChunkLine {
		return malformed("chunk size line exceeds %d bytes", maxChunkLine)
	}
	switch {
	case d.state == inSizeLF:
		if c != '\n' {
			return malformed("chunk size line without its CRLF")
		}
		return d.sizeDone()
	case d.state == inSize && class[c]&classHex != 0:
		return d.digit(c)
	case d.digits == 0:
		return malformed("chunk without a size")
	case c == '\r':
		d.state = inSizeLF
	case d.state == inExt:
		if class[c]&classValue == 0 {
			return malformed("control character in a chunk extension")
		}
	case c == ';' && d.state == inSize:
		d.state = inExt
	case isSpace(c):
		d.state = inPad
	default:
		return malformed("chunk size")
	}
	return nil
}

func (d *chunks) digit(c byte) error {
	if d.digits++; d.digits > maxDigits {
		return malformed("chunk size is too large")
	}
	v := c - '0'
	if c > '9' {
		v = lower(c) - 'a' + 10
	}
	d.size = d.size<<4 | int64(v)
	return nil
}

// sizeDone begins a chunk's content, or the trailer section.
func (d *chunks) sizeDone() error {
	// The line without its CRLF, and the CRLF after the content.
	d.excess = max(0, d.excess+int64(d.line)-16-2*d.size)
	if d.excess > maxExcess {
		return malformed("too much framing in a chunked body")
	}
	d.line, d.digits = 0, 0
	if d.state = inData; d.size == 0 {
		d.state = inTrailerStart
	}
	return nil
}

// trailerByte collects a trailer's field lines, each with its CRLF.
func (d *chunks) trailerByte(c byte) error {
	if len(d.trailer) >= maxTrailer {
		return malformed("trailer section exceeds %d bytes", maxTrailer)
	}
	d.trailer = append(d.trailer, c)
	if c == '\n' {
		if n := len(d.trailer); n < 2 || d.trailer[n-2] != '\r' {
			return malformed("a trailer line does not end in CRLF")
		}
		d.state = inTrailerStart
	}
	return nil
}
