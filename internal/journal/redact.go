package journal

import (
	"net/url"
	"regexp"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	redacted = "[redacted]"
	// maxAsked bounds a client's string in logs, records and totals.
	maxAsked  = 256
	maxReason = 64
	// maxError bounds an error's text; maxScan is how much of it is looked
	// through, so that a secret that the scan cuts in two is cut away as well.
	maxError = 2048
	maxScan  = 4 * maxError
	// minSecret is the shortest secret that is searched for: shorter ones would
	// black out ordinary words.
	minSecret = 4
)

// Redactor takes secrets out of texts that operators read. A nil Redactor
// still takes out what looks like a credential.
type Redactor struct{ known *strings.Replacer }

// NewRedactor makes a redactor that knows the given secrets, in their plain
// and URL-escaped spellings.
func NewRedactor(secrets []string) *Redactor {
	seen := map[string]bool{}
	var all []string
	for _, s := range secrets {
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s)} {
			if len(form) >= minSecret && !seen[form] {
				seen[form] = true
				all = append(all, form)
			}
		}
	}
	if len(all) == 0 {
		return &Redactor{}
	}
	// A secret may begin like another one: the longest is tried first.
	sort.Slice(all, func(i, k int) bool { return len(all[i]) > len(all[k]) })
	pairs := make([]string, 0, 2*len(all))
	for _, s := range all {
		pairs = append(pairs, s, redacted)
	}
	return &Redactor{strings.NewReplacer(pairs...)}
}

// looksSecret matches what is a credential by its looks: vendors' key
// prefixes, authorization values, and key-like parameters or headers. What
// stands before the credential is kept.
var looksSecret = regexp.MustCompile(
	`\b(?:sk|rk|pk|gsk|xai)-[A-Za-z0-9_\-]{6,}` +
		`|\bgk_[a-z2-7]{16}_[a-z2-7]+` + // our own, as authn mints them
		`|\bAIza[A-Za-z0-9_\-]{10,}` +
		`|(?i:\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=\-]{6,})` +
		`|(?i:\b([a-z_\-]*key=)[^\s"'&,;<>]+)` +
		`|(?i:\b((?:(?:[a-z]+-)*api[_\-]?key|(?:access_|auth_|refresh_)?token|secret|password|authorization)["']?\s*[=:]\s*["']?(?:(?:bearer|basic)\s+)?)[^\s"'&,;<>\[\]{}]{4,})`)

// Redact gives s without secrets.
func (r *Redactor) Redact(s string) string {
	if s == "" {
		return s
	}
	if r != nil && r.known != nil {
		s = r.known.Replace(s)
	}
	if !mayHoldSecret(s) {
		return s
	}
	return looksSecret.ReplaceAllString(s, "${1}${2}${3}"+redacted)
}

// mayHoldSecret is a quick look that spares most texts the expression, which
// takes microseconds: every alternative of looksSecret needs one of these.
func mayHoldSecret(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] | 0x20 {
		case 'k':
			if hasFold(s[i:], "k-") || hasFold(s[i:], "k_") || assigns(s[i:], "key") {
				return true
			}
		case 'i': // xai-
			if hasFold(s[i:], "i-") {
				return true
			}
		case 'a':
			if hasFold(s[i:], "aiza") || assigns(s[i:], "authorization") {
				return true
			}
		case 'b':
			if hasFold(s[i:], "bearer") || hasFold(s[i:], "basic") {
				return true
			}
		case 't':
			if assigns(s[i:], "token") {
				return true
			}
		case 's':
			if assigns(s[i:], "secret") {
				return true
			}
		case 'p':
			if assigns(s[i:], "password") {
				return true
			}
		}
	}
	return false
}

func hasFold(s, word string) bool {
	return len(s) >= len(word) && strings.EqualFold(s[:len(word)], word)
}

// assigns is whether s begins with word and then, after quotes and spaces, a
// colon or an equals sign.
func assigns(s, word string) bool {
	if !hasFold(s, word) {
		return false
	}
	s = strings.TrimLeft(s[len(word):], " \t\r\n\f\"'")
	return s != "" && (s[0] == '=' || s[0] == ':')
}

// text is an error's text for operators: bounded and redacted.
func (r *Redactor) text(s string) string {
	return cut(r.Redact(cut(s, maxScan)), maxError)
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// clean makes a client's string fit for records: at most n bytes, valid UTF-8,
// no control or formatting characters. The usual string is returned as it is.
func clean(s string, n int) string {
	if len(s) > n {
		// The clone lets go of the long original.
		s = strings.Clone(cut(s, n))
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' {
			return cut(strings.Map(printable, s), n)
		}
	}
	return s
}

func printable(c rune) rune {
	if !unicode.IsPrint(c) {
		return utf8.RuneError
	}
	return c
}
