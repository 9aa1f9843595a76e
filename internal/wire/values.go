package wire

import (
	"net/http"
	"strconv"
	"time"
)

// Values collects the values of a response's headers in one buffer, so that they
// cost no allocation: put a value into Buf by appending to it, then End it. There
// is room for mostValues. The zero value is ready.
type Values struct {
	Buf   []byte
	names [mostValues]string
	ends  [mostValues]int
	n     int
}

const mostValues = 16

// End ends a value and says which header it is of, in canonical form.
func (v *Values) End(name string) {
	v.names[v.n], v.ends[v.n] = name, len(v.Buf)
	v.n++
}

// Int is a header whose value is a number.
func (v *Values) Int(name string, n int64) {
	v.Buf = strconv.AppendInt(v.Buf, n, 10)
	v.End(name)
}

// Time is a header whose value is a time of RFC 3339, in UTC, rounded up to
// seconds.
func (v *Values) Time(name string, t time.Time) {
	v.Buf = t.Add(time.Second-1).UTC().Truncate(time.Second).AppendFormat(v.Buf, time.RFC3339)
	v.End(name)
}

// Duration is a header whose value is a length such as 1s, 6m0s or 250ms,
// rounded up to milliseconds.
func (v *Values) Duration(name string, d time.Duration) {
	ms := max(0, int64((d+time.Millisecond-1)/time.Millisecond))
	if ms > 0 && ms < 1000 {
		v.Buf = append(strconv.AppendInt(v.Buf, ms, 10), "ms"...)
	} else {
		v.Buf = appendMinutes(v.Buf, ms)
	}
	v.End(name)
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
func (v *Values) Reset() { v.Buf, v.n = v.Buf[:0], 0 }

// PutInto puts the headers into an answer's head.
func (v *Values) PutInto(f Fields) {
	from := 0
	for i, name := range v.names[:v.n] {
		f.PutBytes(name, v.Buf[from:v.ends[i]])
		from = v.ends[i]
	}
}

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
