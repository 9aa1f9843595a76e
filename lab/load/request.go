package load

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// maker makes requests.
type maker struct {
	cfg     *Config
	url     *url.URL
	dialect string
	header  http.Header
	lines   lines // the same, as our own client takes it
	filler  string
}

// lorem fills prompts. It holds nothing that JSON would escape.
const lorem = "the gateway carries every token once and in order while the client reads at its own pace and nothing is lost "

func newMaker(c *Config) (*maker, error) {
	address, dialect, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	m := &maker{cfg: c, url: u, dialect: dialect, header: http.Header{}}
	m.filler = strings.Repeat(lorem, c.PromptBytes/len(lorem)+1)
	m.header.Set("Content-Type", "application/json")
	m.header.Set("User-Agent", "headgate-load")
	if c.Stream {
		m.header.Set("Accept", "text/event-stream")
	}
	if dialect == Anthropic {
		m.header.Set("Anthropic-Version", "2023-06-01")
	}
	switch {
	case c.Key == "":
	case dialect == Anthropic:
		m.header.Set("X-Api-Key", c.Key)
	default:
		m.header.Set("Authorization", "Bearer "+c.Key)
	}
	maps.Copy(m.header, c.Header)
	m.lines, err = linesOf(m.header)
	return m, err
}

// body is the call. Its own writing keeps the cost of a large prompt at one
// copy.
func (m *maker) body(n, session int) []byte {
	b := make([]byte, 0, m.cfg.PromptBytes+256)
	b = append(b, `{"model":`...)
	b = jsonspan.AppendQuote(b, m.cfg.Model)
	b = strconv.AppendInt(append(b, `,"max_tokens":`...), int64(m.cfg.MaxTokens), 10)
	if session > 0 {
		b = m.user(b, session)
	}
	if m.cfg.Stream {
		b = append(b, `,"stream":true`...)
		if m.dialect == OpenAI {
			b = append(b, `,"stream_options":{"include_usage":true}`...)
		}
	}
	b = append(b, `,"messages":[{"role":"user","content":"`...)
	b = append(b, m.prompt(n, session)...)
	return append(b, `"}]}`...)
}

func (m *maker) user(b []byte, session int) []byte {
	name, end := `,"user":"session-`, `"`
	if m.dialect == Anthropic {
		name, end = `,"metadata":{"user_id":"session-`, `"}`
	}
	return append(strconv.AppendInt(append(b, name...), int64(session), 10), end...)
}

// prompt is the text of a request: for a session's, a first half that all its
// requests share (what a prefix cache finds), then what is this request's own.
func (m *maker) prompt(n, session int) string {
	size := m.cfg.PromptBytes
	own := "request " + strconv.Itoa(n) + " "
	if session == 0 {
		return (own + m.filler)[:size]
	}
	shared := "session " + strconv.Itoa(session) + " "
	shared = (shared + m.filler)[:max(min(len(shared), size), size/2)]
	return (shared + own + m.filler)[:size]
}
