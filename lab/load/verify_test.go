package load

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func chunk(seq int) string {
	return fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":\"x~%d.%d~\"}}]}\n\n", seq, time.Now().UnixNano())
}

func chunks(seqs ...int) string {
	var b strings.Builder
	for _, s := range seqs {
		b.WriteString(chunk(s))
	}
	return b.String()
}

const (
	endMark  = "data: [DONE]\n\n"
	usage4   = `data: {"choices":[],"usage":{"completion_tokens":6,"completion_tokens_details":{"reasoning_tokens":2}}}` + "\n\n"
	anthropi = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"~0.1~\"}}\n\n"
)

// feedAll gives a stream in pieces of n bytes.
func feedAll(dialect, stream string, n int) *verifier {
	v := newVerifier(dialect, func(time.Duration, []time.Duration) {})
	for piece := range slices.Chunk([]byte(stream), n) {
		v.feed(piece, time.Now())
	}
	return v
}

func TestVerifier(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		kind   Kind
		says   string
	}{
		"whole":           {chunks(0, 1, 2, 3) + usage4 + endMark, "", ""},
		"no stamps":       {`data: {"choices":[{"delta":{"content":"hi"}}]}` + "\n\n" + usage4 + endMark, "", ""},
		"comments":        {": ping\n\n" + chunks(0) + ": ping\n\n" + endMark, "", ""},
		"lost":            {chunks(0, 1, 3) + endMark, Order, "1 tokens lost, 0 twice, 0 out"},
		"lost first":      {chunks(1, 2, 3) + endMark, Order, "1 tokens lost"},
		"lost last":       {chunks(0, 1, 2) + usage4 + endMark, Order, "1 tokens lost"},
		"twice":           {chunks(0, 1, 1, 2) + endMark, Order, "0 tokens lost, 1 twice, 0 out"},
		"reordered":       {chunks(0, 2, 1, 3) + endMark, Order, "0 tokens lost, 0 twice, 1 out"},
		"no end":          {chunks(0, 1, 2), Truncated, "no end mark"},
		"half an event":   {chunks(0, 1) + chunk(2)[:40], Truncated, "half an event"},
		"no last newline": {chunks(0) + strings.TrimSpace(endMark), "", ""},
		"behind the end":  {chunks(0) + endMark + chunks(1), Order, "behind the end"},
		"not JSON":        {chunks(0) + "data: {\"a\":,}\n\n" + endMark, Malformed, `{"a":,}`},
		"joined events":   {chunks(0) + strings.TrimSuffix(chunk(1), "\n\n") + chunk(2) + endMark, Malformed, ""},
		"error":           {chunks(0) + "data: {\"error\":{\"message\":\"no\"}}\n\n", Refused, "no"},
	} {
		for _, n := range []int{1, 7, 1 << 20} {
			kind, says := feedAll(OpenAI, c.stream, n).verdict(nil)
			if kind != c.kind || !strings.Contains(says, c.says) {
				t.Errorf("%s in pieces of %d: %q, %q", name, n, kind, says)
			}
		}
	}
}

func TestVerifierAnthropic(t *testing.T) {
	stop := "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	if v := feedAll(Anthropic, anthropi+stop, 5); v.tokens != 1 || v.last.IsZero() {
		t.Errorf("%d tokens", v.tokens)
	} else if kind, says := v.verdict(nil); kind != "" {
		t.Error(kind, says)
	}
	for stream, want := range map[string]Kind{
		anthropi:                   Truncated,
		anthropi + anthropi + stop: Order,
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n": Refused,
		anthropi + endMark: Malformed,
	} {
		if kind, _ := feedAll(Anthropic, stream, 11).verdict(nil); kind != want {
			t.Errorf("%q: %q", stream, kind)
		}
	}
}

func TestStampsBesideOtherTildes(t *testing.T) {
	s, rest, ok := nextStamp([]byte("a ~ b ~~12.34~ ~5.6~"))
	if !ok || s != (stamp{12, 34}) {
		t.Fatal(s, ok)
	}
	if s, _, ok = nextStamp(rest); !ok || s != (stamp{5, 6}) {
		t.Error(s, ok)
	}
	for _, none := range []string{"", "~", "~~", "~1.~", "~.1~", "~-1.5~", "~99999999999.1~", "1.2"} {
		if s, _, ok := nextStamp([]byte(none)); ok {
			t.Errorf("%q: %v", none, s)
		}
	}
}

func TestEndpoints(t *testing.T) {
	for _, c := range []struct{ url, dialect, want, speaks string }{
		{"http://h:1", "", "http://h:1/v1/chat/completions", OpenAI},
		{"http://h:1/", Anthropic, "http://h:1/v1/messages", Anthropic},
		{"http://h:1/v1/", "", "http://h:1/v1/chat/completions", OpenAI},
		{"http://h/anthropic", Anthropic, "http://h/anthropic/v1/messages", Anthropic},
		{"https://h/anthropic/v1/messages", "", "https://h/anthropic/v1/messages", Anthropic},
		{"http://h/x/chat/completions?a=b", "", "http://h/x/chat/completions?a=b", OpenAI},
		{"http://h/v1/messages", OpenAI, "", ""},
		{"h:1", "", "", ""},
		{"ftp://h", "", "", ""},
		{"http://me:secret@h", "", "", ""},
	} {
		u, d, err := (&Config{URL: c.url, Dialect: c.dialect}).endpoint()
		if u != c.want || d != c.speaks || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %q, %v", c.url, u, d, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"dialect": func(c *Config) { c.Dialect = "gemini" }, "model": func(c *Config) { c.Model = "" }, "rate": func(c *Config) { c.Rate = -1 },
		"connections": func(c *Config) { c.Connections = 0 }, "in-flight": func(c *Config) { c.InFlight = 0 },
		"pattern": func(c *Config) { c.Pattern = "square" }, "peak": func(c *Config) { c.Peak = 0 },
		"burst": func(c *Config) { c.BurstLength = c.Period }, "zipf": func(c *Config) { c.Zipf = 1 }, "sessions": func(c *Config) { c.Sessions = -1 },
		"prompt-bytes": func(c *Config) { c.PromptBytes = 0 }, "max-tokens": func(c *Config) { c.MaxTokens = 0 },
		"duration": func(c *Config) { c.Duration = 0 }, "requests": func(c *Config) { c.Requests = 0 }, "timeout": func(c *Config) { c.Timeout = 0 },
		"warmup": func(c *Config) { c.Warmup = c.Duration }, "pid": func(c *Config) { c.PID = -1 },
	} {
		c := small("http://127.0.0.1:1")
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), name+":") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := small("http://127.0.0.1:1")
	if c.Pattern = Step; c.Validate() == nil {
		t.Error("a pattern without a rate is accepted")
	}
}
