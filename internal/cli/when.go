package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/app"
)

// parseWhen reads a time: a date, a time of RFC 3339, or a length such as 24h or
// 30d, which is so far from now: ahead of it with sign 1, before it with -1. The
// empty text is the zero time.
func parseWhen(text string, sign time.Duration, now time.Time) (time.Time, error) {
	if d, err := parseLength(text); err == nil {
		return now.Add(sign * d).UTC(), nil
	}
	t, err := app.ParseTime(text)
	if err != nil {
		return t, fmt.Errorf("%q is not a time; write a date such as 2026-01-31, a time such as 2026-01-31T12:00:00Z, or a length such as 24h or 30d", text)
	}
	return t, nil
}

const day = 24 * time.Hour

// parseLength reads a length of time in Go's form, or in days.
func parseLength(text string) (time.Duration, error) {
	if digits, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || n < 0 || n > 36500 {
			return 0, fmt.Errorf("%q is not a number of days", text)
		}
		return time.Duration(n) * day, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a length of time; write one such as 15m, 24h or 30d", text)
	}
	return d, nil
}
