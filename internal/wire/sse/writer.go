package sse

import "strconv"

// AppendEvent appends an event: its name unless that is empty, its data, and the
// blank line that ends it. Data is split at LF, CRLF and CR into several data
// lines, which a reader joins by LF; empty data gives an event with empty data.
// A line can not hold a line end, so LF and CR in the name are left out: a name
// can not smuggle in fields.
func AppendEvent(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(dst, "event: "...)
		for i := range len(name) {
			if c := name[i]; c != '\n' && c != '\r' {
				dst = append(dst, c)
			}
		}
		dst = append(dst, '\n')
	}
	for {
		end := lineEnd(data, 0)
		dst = append(dst, "data: "...)
		dst = append(dst, data[:end]...)
		dst = append(dst, '\n')
		if end == len(data) {
			return append(dst, '\n')
		}
		data = afterLine(data, end)
	}
}

// AppendComment appends a comment, which readers ignore, and a blank line. A
// text of several lines becomes as many comment lines. Sent now and then it
// keeps idle connections open.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\r' && i+1 < len(text) && text[i+1] == '\n':
		case c == '\n' || c == '\r':
			dst = append(dst, "\n: "...)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, "\n\n"...)
}

// AppendRetry appends the line that tells the reader how many milliseconds to
// wait before it reconnects; a negative time counts as 0. It is a line of the
// block that follows, which ends with that block's blank line.
func AppendRetry(dst []byte, ms int64) []byte {
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, max(ms, 0), 10)
	return append(dst, '\n')
}

// afterLine is what follows the line end at b[end].
func afterLine(b []byte, end int) []byte {
	if b[end] == '\r' && end+1 < len(b) && b[end+1] == '\n' {
		end++
	}
	return b[end+1:]
}
