package fault

import "strings"

// longestLegible is how much of a client's text is repeated to it, in bytes.
const longestLegible = 128

// Legible is text of a client as a sentence or a record may repeat it: at most
// 128 bytes, with "…" where it was longer, and a question mark in the place of
// each control character. Most text is what it was, and costs nothing.
func Legible(s string) string {
	if len(s) > longestLegible {
		s = strings.ToValidUTF8(s[:longestLegible], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
