package wire

import "github.com/headgate-ai/headgate/internal/llm"

// bytesPerToken is the usual rule of thumb for English text; it serves only
// where a provider never said how many tokens it produced.
const bytesPerToken = 4

// Meter counts what a stream produced, for the case that the provider's own
// count never comes: a client that left, a connection that broke.
type Meter struct {
	reported llm.Usage
	known    bool
	bytes    int64
	pieces   int64
}

// Produced notes a piece of content of n bytes.
func (m *Meter) Produced(n int) {
	m.bytes += int64(n)
	m.pieces++
}

// Report notes the provider's own count; the last one counts.
func (m *Meter) Report(u llm.Usage) { m.reported, m.known = u, true }

// Reported is whether the provider has reported its own count of the output.
func (m *Meter) Reported() bool { return m.known }

// Usage is the provider's count or else an estimate: providers send at least
// one token an event, and a token is about four bytes.
func (m *Meter) Usage() llm.Usage {
	u := m.reported
	if !m.known && m.pieces > 0 {
		u.Output = max(m.pieces, (m.bytes+bytesPerToken-1)/bytesPerToken)
		u.Estimated = true
	}
	return u
}
