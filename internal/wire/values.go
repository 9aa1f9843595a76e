package wire

import (
	"net/http"
	"strconv"
	"time"
)

// Values collects header fields of an answer as the lines that they are on the
// wire, in one buffer, so that they cost no allocation. There is room for
// mostValues. The zero value is ready.
type Values struct {
	lines  []byte
	fields [mostValues]field
	n      int
}

const mostValues = 16

// field is where one value lies in the lines.
type field struct {
	name     string
	from, to int
}

// begin begins a line; the value is appended to it. The name is in canonical form.
func (v *Values) begin(name string) {
	v.lines = append(append(v.lines, name...), ": "...)
	v.fields[v.n] = field{name: name, from: len(v.lines)}
}

// end ends the line.
func (v *Values) end() {
	v.fields[v.n].to = len(v.lines)
	v.n++
	v.lines = append(v.lines, "\r\n"...)
}

// Int is a header whose value is a number.
func (v *Values) Int(name string, n int64) {
	v.begin(name)
	v.lines = strconv.AppendInt(v.lines, n, 10)
	v.end()
}

// Time is a header whose value is a time of RFC 3339, in UTC, rounded up to
// seconds.
func (v *Values) Time(name string, t time.Time) {
	v.begin(name)
	v.lines = t.Add(time.Second-1).UTC().Truncate(time.Second).AppendFormat(v.lines, time.RFC3339)
	v.end()
}

// Duration is a header whose value is a length such as 1s, 6m0s or 250ms,
// rounded up to milliseconds.
func (v *Values) Duration(name string, d time.Duration) {
	v.begin(name)
	ms := max(0, int64((d+time.Millisecond-1)/time.Millisecond))
	if ms > 0 && ms < 1000 {
		v.lines = append(strconv.AppendInt(v.lines, ms, 10), "ms"...)
	} else {
		v.lines = appendMinutes(v.lines, ms)
	}
	v.end()
}

// appendMinutes spells milliseconds as hours, minutes and seconds, as package time
// does.
func appendMinutes(b []byte, ms int64) []byte {
	const perMinute = 60_000
	if m := ms / perMinute; m > 0 {
		if m >= 60 {
			b = append(strconv.AppendInt(b, m/60, 10), 'h')
		}
		b = append(strconv.AppendInt(b, m%60, 10), 'm')
	}
	ms %= perMinute
	b = strconv.AppendInt(b, ms/1000, 10)
	if part := ms % 1000; part > 0 {
		b = append(b, '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
	}
	return append(b, 's')
}

// Reset makes v ready to be used again; the buffer stays.
func (v *Values) Reset() { v.lines, v.n = v.lines[:0], 0 }

// PutInto puts the headers into an answer's head.
func (v *Values) PutInto(f Fields) {
	if head, ok := f.(Lines); ok {
		head.PutLines(v.lines, v.n)
		return
	}
	for i := range v.fields[:v.n] {
		x := &v.fields[i]
		f.PutBytes(x.name, v.lines[x.from:x.to])
	}
}

// Lines are Fields that take n lines as they are on the wire, each with its end.
type Lines interface{ PutLines(lines []byte, n int) }

// Fields takes the header fields of an answer, one value at a time. Names are in
// canonical form. To put them into a map first costs more than to write them.
type Fields interface {
	Put(name, value string)
	// PutBytes does not keep the value.
	PutBytes(name string, value []byte)
}

// Header is a map as Fields.
type Header http.Header

// Put implements Fields.
func (h Header) Put(name, value string) { h[name] = append(h[name], value) }

// PutBytes implements Fields.
func (h Header) PutBytes(name string, value []byte) { h.Put(name, string(value)) }

// First is the first value of a header field, "" where there is none. The name
// must be in canonical form; Header.Get makes sure of that each time.
func First(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
