package journal

import (
	"log/slog"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// line builds one log line in a buffer that the sink lends out. In JSON it
// writes what encoding/json would, without reflection; in text it writes
// key=value pairs, nested keys joined by dots.
type line struct {
	b      []byte
	class  int8 // for the ring and the drop counters
	text   bool
	first  bool   // no comma before the next member
	prefix string // text only: the open objects' keys
}

// The classes of lines: the last one waits a little rather than be dropped.
const (
	classInfo int8 = iota
	classWarn
	classError
	classes
)

var classNames = [classes]string{"info", "warn", "error"}

func classOf(l slog.Level) int8 {
	switch {
	case l >= slog.LevelError:
		return classError
	case l >= slog.LevelWarn:
		return classWarn
	}
	return classInfo
}

// begin opens the line with what every line has. A zero time is left out, as
// slog demands.
func (l *line) begin(at time.Time, level slog.Level, msg, service, requestID string) {
	l.class = classOf(level)
	if l.text {
		if !at.IsZero() {
			l.b = append(appendTime(l.b, at), ' ')
		}
		l.b = append(l.b, level.String()...)
		l.b = append(l.b, ' ')
		l.b = appendQuoted(l.b, msg)
	} else {
		l.b = append(l.b, '{')
		if !at.IsZero() {
			l.b = append(l.b, `"time":"`...)
			l.b = append(appendTime(l.b, at), `",`...)
		}
		l.b = append(l.b, `"level":"`...)
		l.b = append(l.b, level.String()...)
		l.b = append(l.b, `","msg":`...)
		l.b = appendJSON(l.b, msg)
	}
	l.str("service_name", service)
	l.str("request_id", requestID)
}

func (l *line) end() {
	if !l.text {
		l.b = append(l.b, '}')
	}
	l.b = append(l.b, '\n')
}

// key writes a member's name. Names are this package's own, or escaped by
// keyOf.
func (l *line) key(k string) {
	if l.text {
		l.b = append(l.b, ' ')
		l.b = append(l.b, l.prefix...)
		l.b = append(l.b, k...)
		l.b = append(l.b, '=')
		return
	}
	if l.first {
		l.b = append(l.b, '"')
	} else {
		l.b = append(l.b, ',', '"')
	}
	l.first = false
	l.b = append(l.b, k...)
	l.b = append(l.b, '"', ':')
}

func (l *line) str(k, v string) {
	l.key(k)
	l.value(v)
}

func (l *line) value(v string) {
	if l.text {
		l.b = appendQuoted(l.b, v)
	} else {
		l.b = appendJSON(l.b, v)
	}
}

func (l *line) hex(k string, id []byte) {
	l.key(k)
	if !l.text {
		l.b = append(l.b, '"')
	}
	for _, c := range id {
		l.b = append(l.b, hexDigits[c>>4], hexDigits[c&0xf])
	}
	if !l.text {
		l.b = append(l.b, '"')
	}
}

func (l *line) num(k string, v int64) {
	l.key(k)
	if 0 <= v && v < 10 {
		// So many numbers of a line are zero that this is worth a branch.
		l.b = append(l.b, byte('0'+v))
		return
	}
	l.b = strconv.AppendInt(l.b, v, 10)
}

func (l *line) micros(k string, d time.Duration) { l.num(k, d.Microseconds()) }

func (l *line) bool(k string, v bool) {
	l.key(k)
	l.b = strconv.AppendBool(l.b, v)
}

// open begins a nested object; the result is given to close.
func (l *line) open(k string) (outer string) {
	outer = l.prefix
	if l.text {
		l.prefix += k + "."
		return outer
	}
	l.key(k)
	l.b = append(l.b, '{')
	l.first = true
	return outer
}

func (l *line) close(outer string) {
	l.prefix = outer
	if !l.text {
		l.b = append(l.b, '}')
	}
	l.first = false
}

const hexDigits = "0123456789abcdef"

// appendJSON appends s as a JSON string, as encoding/json does without HTML
// escaping: what is not UTF-8 becomes U+FFFD, and the two line separators that
// JavaScript does not like are escaped.
func appendJSON(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start, i := 0, 0
	for i < len(s) && plain[s[i]] {
		i++
	}
	for i < len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = jsonspan.AppendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if (r == utf8.RuneError && n == 1) || r == '\u2028' || r == '\u2029' {
			dst = append(dst, s[start:i]...)
			dst = append(dst, '\\', 'u', hexDigits[r>>12&0xf], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
			start = i + n
		}
		i += n
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// plain are the bytes that stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendQuoted appends s for the text format: bare where that is unambiguous.
func appendQuoted(dst []byte, s string) []byte {
	bare := s != ""
	for i := 0; bare && i < len(s); i++ {
		c := s[i]
		bare = c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\'
	}
	if bare {
		return append(dst, s...)
	}
	return strconv.AppendQuote(dst, s)
}

// appendTime appends RFC 3339 in UTC with milliseconds. time.AppendFormat does
// the same three times slower, having no fast path for milliseconds.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = digits(dst, year, 4)
	dst = digits(append(dst, '-'), int(month), 2)
	dst = digits(append(dst, '-'), day, 2)
	dst = digits(append(dst, 'T'), hour, 2)
	dst = digits(append(dst, ':'), minute, 2)
	dst = digits(append(dst, ':'), second, 2)
	dst = digits(append(dst, '.'), t.Nanosecond()/1e6, 3)
	return append(dst, 'Z')
}

// digits appends the last n decimal digits of v.
func digits(dst []byte, v, n int) []byte {
	at := len(dst)
	for range n {
		dst = append(dst, '0')
	}
	for i := n - 1; i >= 0; i-- {
		dst[at+i] = byte('0' + v%10)
		v /= 10
	}
	return dst
}
