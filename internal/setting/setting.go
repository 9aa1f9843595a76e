// Package setting is the vocabulary of configuration values: durations, sizes,
// secrets, names and globs, and the problems that a validation may find. Rooms
// declare their Config with these types; package config decodes them.
package setting

import (
	"encoding"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Problem is one mistake in a configuration: where, what is wrong, and what
// would be right.
type Problem struct {
	// Path is the field's path, as in "providers[0].base_url".
	Path    string
	Message string
}

// Problems collects mistakes. The zero value is ready to use.
type Problems []Problem

// Add notes a mistake at path. The message says what is wrong, then what would
// be right.
func (p *Problems) Add(path, format string, args ...any) {
	*p = append(*p, Problem{path, fmt.Sprintf(format, args...)})
}

// Duration is a length of time written as Go does: 250ms, 30s, 5m, 24h.
type Duration time.Duration

// UnmarshalText parses the written form.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is not a duration; write a number with its unit, such as 250ms, 30s or 5m", b)
	}
	if v < 0 {
		return fmt.Errorf("%q is negative; durations here are zero or more", b)
	}
	*d = Duration(v)
	return nil
}

// MarshalText gives the written form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Std is the duration as package time knows it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Size is a number of bytes written as 64KiB, 32MiB, 1GiB or plain digits.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

// UnmarshalText parses the written form.
func (s *Size) UnmarshalText(b []byte) error {
	text := string(b)
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > (1<<62)/u.bytes {
			break
		}
		*s = Size(n * u.bytes)
		return nil
	}
	return fmt.Errorf("%q is not a size; write a whole number with its unit, such as 64KiB, 32MiB or 1GiB", text)
}

// MarshalText gives the written form, in the largest unit that is exact.
func (s Size) MarshalText() ([]byte, error) {
	for i := 2; i >= 0; i-- {
		if u := sizeUnits[i]; s != 0 && int64(s)%u.bytes == 0 {
			return fmt.Appendf(nil, "%d%s", int64(s)/u.bytes, u.suffix), nil
		}
	}
	return strconv.AppendInt(nil, int64(s), 10), nil
}

// Secret is a reference to a secret: env:NAME, file:PATH or literal:VALUE. It
// prints as the reference with any literal value left out, so a configuration
// can be shown.
type Secret struct{ ref string }

// NewSecret makes a reference, for configurations built in code.
func NewSecret(ref string) Secret { return Secret{ref} }

// UnmarshalText checks the reference's form; it does not resolve it.
func (s *Secret) UnmarshalText(b []byte) error {
	scheme, rest, ok := strings.Cut(string(b), ":")
	if !ok || rest == "" || (scheme != "env" && scheme != "file" && scheme != "literal") {
		// The text may be a secret that was pasted in, so it is not repeated.
		return fmt.Errorf("not a reference to a secret; write env:NAME, file:PATH or literal:VALUE")
	}
	s.ref = string(b)
	return nil
}

// MarshalText shows the reference, a literal's value left out.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String shows the reference, a literal's value left out.
func (s Secret) String() string {
	if strings.HasPrefix(s.ref, "literal:") {
		return "literal:[redacted]"
	}
	return s.ref
}

// GoString keeps %#v from showing the value.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// IsZero is whether no reference was given.
func (s Secret) IsZero() bool { return s.ref == "" }

// File is the path that a file: reference names, else "".
func (s Secret) File() string {
	p, ok := strings.CutPrefix(s.ref, "file:")
	if !ok {
		return ""
	}
	return p
}

// Resolve reads the secret. White space around the content of a file or
// variable is dropped, as mounted secrets often end in a newline.
func (s Secret) Resolve() (string, error) {
	scheme, rest, _ := strings.Cut(s.ref, ":")
	var value string
	switch scheme {
	case "literal":
		return rest, nil
	case "env":
		v, ok := os.LookupEnv(rest)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", rest)
		}
		value = strings.TrimSpace(v)
	case "file":
		b, err := os.ReadFile(rest)
		if err != nil {
			return "", fmt.Errorf("cannot read the secret's file: %w", err)
		}
		value = strings.TrimSpace(string(b))
	default:
		return "", fmt.Errorf("no reference to a secret was given")
	}
	if value == "" {
		return "", fmt.Errorf("the secret that %s refers to is empty", s)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("the secret that %s refers to holds control characters", s)
	}
	return value, nil
}

var (
	_ encoding.TextUnmarshaler = (*Duration)(nil)
	_ encoding.TextUnmarshaler = (*Size)(nil)
	_ encoding.TextUnmarshaler = (*Secret)(nil)
)

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// CheckName notes a problem at path unless name matches [a-z0-9][a-z0-9._-]*.
func CheckName(p *Problems, path, name string) {
	switch {
	case name == "":
		p.Add(path, "a name is missing; write one such as \"main\"")
	case !nameRE.MatchString(name):
		p.Add(path, "%q is not a name; use small letters, digits, dot, dash and underscore, beginning with a letter or digit", name)
	}
}

// Match reports whether a glob matches s. The only special character is *,
// which stands for any run of characters, slashes included.
func Match(glob, s string) bool {
	if glob == "*" {
		return true
	}
	first, rest, star := strings.Cut(glob, "*")
	if !star {
		return glob == s
	}
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(s, rest)
		}
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(part):], more
	}
}

// Index is the path of the i-th element of the list at path.
func Index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// CheckListen notes a problem at path unless addr is host:port.
func CheckListen(p *Problems, path, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 {
		p.Add(path, "%q is not an address to listen on; write host:port, such as 127.0.0.1:8080 or :8080", addr)
	}
}

// Loopback is whether addr, as host:port, can be reached from this machine
// only.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
