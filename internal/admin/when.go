package admin

import (
	"fmt"
	"time"
)

// when is a time in a body; see ParseTime.
type when time.Time

// UnmarshalText parses the written form.
func (w *when) UnmarshalText(b []byte) error {
	t, err := ParseTime(string(b))
	*w = when(t)
	return err
}

// ParseTime reads a time of RFC 3339, or a date, which is its beginning in UTC.
// The empty text is the zero time.
func ParseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time; write a date such as 2026-01-31, or a time such as 2026-01-31T12:00:00Z", text)
}
