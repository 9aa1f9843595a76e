//go:build linux

package h1

import "bytes"

// preface is how HTTP/2 begins without TLS (RFC 9113, 3.4).
const preface = "PRI * HTTP/2.0\r\n"

// readHead waits for a whole head and copies it: nothing that is made of it
// may point into the input. It looks at each byte once, however slowly they
// come, and at line ends only.
func (c *conn) readHead() (text string, lines int, v verdict) {
	if v = c.await(); v.kind != fast {
		return "", 0, v
	}
	at, begin := 0, 0 // from the start of the input: to look at next, start of the line
	for {
		b := c.in.buf[c.in.r:c.in.w]
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			at = len(b)
			if v = c.more(); v.kind != fast {
				return "", 0, v
			}
			continue
		}
		at += i + 1
		switch {
		case at < 2 || b[at-2] != '\r':
			return "", 0, bad("line that does not end in CR LF")
		case at-begin == 2:
			return string(b[:at]), lines, c.within(at)
		case lines == 0 && string(b[:at]) == preface:
			return "", 0, handed(Version)
		}
		begin = at
		lines++
	}
}

// await waits for the first byte of a request, holding no buffer meanwhile,
// and looks at it.
func (c *conn) await() verdict {
	if v := c.firstByte(); v.kind != fast {
		return v
	}
	if c.served > 0 && c.in.buf[c.in.r] == '\r' {
		if v := c.emptyLine(); v.kind != fast {
			return v
		}
	}
	if !token[c.in.buf[c.in.r]] {
		return handed(Malformed)
	}
	return verdict{}
}

// firstByte waits for something to be in the input. Between two requests the
// connection is idle until then.
func (c *conn) firstByte() verdict {
	if c.in.len() == 0 {
		if c.served > 0 && !c.enter(idle) || c.fill() != nil {
			return verdict{kind: over}
		}
	}
	if !c.enter(heading) {
		return verdict{kind: over}
	}
	return verdict{}
}

// emptyLine passes over one empty line behind an earlier request (RFC 9112,
// 2.2): some clients send one after a body.
func (c *conn) emptyLine() verdict {
	for c.in.len() < 2 {
		if v := c.more(); v.kind != fast {
			return v
		}
	}
	if c.in.buf[c.in.r+1] != '\n' {
		return verdict{}
	}
	c.in.skip(2)
	return c.firstByte()
}

// more reads more of a head, unless it is too long already.
func (c *conn) more() verdict {
	if v := c.within(c.in.len()); v.kind != fast {
		return v
	}
	if c.fill() != nil {
		return verdict{kind: over}
	}
	return verdict{}
}

func (c *conn) within(n int) verdict {
	if n > c.s.maxHead {
		return verdict{kind: refuse, status: 431, why: "the head is too large"} // RFC 6585, 5
	}
	return verdict{}
}
