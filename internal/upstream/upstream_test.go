package upstream

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/internal/wire"
)

func compile(t *testing.T, list ...ProviderConfig) *Plan {
	t.Helper()
	var p setting.Problems
	room := New()
	t.Cleanup(room.Close)
	plan, _ := room.Compile(list, &p)
	if len(p) > 0 {
		t.Fatal(p)
	}
	return &plan
}

func provider(name string, d llm.Dialect, url string, secrets ...string) ProviderConfig {
	c := ProviderConfig{}
	c.SetDefaults()
	c.Name, c.Dialect, c.BaseURL = name, d, url
	for i, s := range secrets {
		c.Credentials = append(c.Credentials, CredentialConfig{setting.NewSecret("literal:" + s), 1 + 2*i})
	}
	return c
}

func TestAddress(t *testing.T) {
	plan := compile(t,
		provider("o", llm.OpenAI, "https://host/api/v1/"), provider("a", llm.Anthropic, "https://host"), provider("a1", llm.Anthropic, "https://host/v1"), provider("s", llm.Simulator, "http://sim"))
	for _, c := range []struct {
		name, path string
		dialect    llm.Dialect
		want       string
	}{
		{"o", "/chat/completions?a=%2F", llm.OpenAI, "https://host/api/v1/chat/completions?a=%2F"},
		{"a", "/v1/messages", llm.Anthropic, "https://host/v1/messages"},
		{"a1", "/v1/messages", llm.Anthropic, "https://host/v1/messages"},
		{"s", "/chat/completions", llm.OpenAI, "http://sim/v1/chat/completions"},
		{"s", "/v1/messages", llm.Anthropic, "http://sim/v1/messages"},
	} {
		p := plan.Provider(c.name)
		prefix, path := p.target(&llm.Call{Path: c.path, Dialect: c.dialect})
		if got := p.base.Scheme + "://" + p.base.Host + prefix + path; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestCredentials(t *testing.T) {
	p := compile(t, provider("o", llm.OpenAI, "https://host/v1", "one", "two")).Provider("o")
	n := map[string]int{}
	for range 4000 {
		n[p.pick().value]++
	}
	if n["one"] < 800 || n["one"] > 1200 || n["one"]+n["two"] != 4000 {
		t.Errorf("weights 1 and 3: %v", n)
	}
	if got := string(p.Redact([]byte("key one at host, not two"))); got != "key [redacted] at [provider], not [redacted]" {
		t.Error(got)
	}
	if got := p.RedactURL("https://host/x?k=two"); got != "https://host/x?k=redacted" {
		t.Error(got)
	}
	if none := compile(t, provider("o", llm.OpenAI, "https://host/v1")).Provider("o"); none.pick() != nil {
		t.Error("a credential out of nothing")
	}
}

// A reload that changes nothing about connections keeps them.
func TestPools(t *testing.T) {
	room := New()
	t.Cleanup(room.Close)
	var p setting.Problems
	first, _ := room.Compile([]ProviderConfig{provider("o", llm.OpenAI, "https://host/v1", "one")}, &p)
	second, _ := room.Compile([]ProviderConfig{provider("o", llm.OpenAI, "https://host/v2", "two")}, &p)
	if first.Provider("o").pool != second.Provider("o").pool {
		t.Error("a changed credential costs the connections")
	}
	third, _ := room.Compile([]ProviderConfig{provider("o", llm.OpenAI, "https://other/v1", "two")}, &p)
	if third.Provider("o").pool == second.Provider("o").pool {
		t.Error("another host's connections are used")
	}
}

func TestCopyHeader(t *testing.T) {
	dst := http.Header{}
	src := http.Header{"Connection": {"x-hop"}, "X-Hop": {"1"}, "X-Ratelimit-Limit": {"5"}, "Set-Cookie": {"a"}, "X-Request-Id": {"u"}, "Request-Id": {"v"}, "X-Fine": {"1", "2"}, "Cache-Control": {"public"}}
	CopyHeader(wire.Header(dst), src, true)
	if len(dst) != 3 || dst.Get("X-Upstream-Request-Id") != "u" || dst["Llm_provider-X-Ratelimit-Limit"] == nil || len(dst["X-Fine"]) != 2 {
		t.Errorf("%v", dst)
	}
	whole := http.Header{}
	delete(src, "X-Request-Id")
	CopyHeader(wire.Header(whole), src, false)
	if len(whole) != 4 || whole.Get("X-Upstream-Request-Id") != "v" || whole.Get("Cache-Control") != "public" {
		t.Errorf("%v", whole)
	}
}

func TestMistakes(t *testing.T) {
	for want, change := range map[string]func(*ProviderConfig){
		"providers[0].name":                  func(c *ProviderConfig) { c.Name = "A" },
		"providers[0].dialect":               func(c *ProviderConfig) { c.Dialect = "cobol" },
		"providers[0].base_url":              func(c *ProviderConfig) { c.BaseURL = "ftp://x" },
		"providers[0].max_connections":       func(c *ProviderConfig) { c.MaxConnections = -1 },
		"providers[0].credentials[0].weight": func(c *ProviderConfig) { c.Credentials[0].Weight = 0 },
		"providers[0].credentials[0].secret": func(c *ProviderConfig) { c.Credentials[0].Secret = setting.Secret{} },
		"providers[0].headers.Host":          func(c *ProviderConfig) { c.Headers = map[string]string{"Host": "x"} },
		"providers[0].headers.X":             func(c *ProviderConfig) { c.Headers = map[string]string{"X": "a\r\nb: c"} },
	} {
		c := provider("o", llm.OpenAI, "https://host/v1", "one")
		change(&c)
		var p setting.Problems
		Validate([]ProviderConfig{c}, &p)
		if len(p) != 1 || p[0].Path != want {
			t.Errorf("%s: %v", want, p)
		}
	}
	for _, url := range []string{"https://user:secret@host", "https://host?key=x", "host", "https://", "://"} {
		c := provider("o", llm.OpenAI, url, "one")
		var p setting.Problems
		if Validate([]ProviderConfig{c}, &p); len(p) != 1 || strings.Contains(p[0].Message, "secret@") {
			t.Errorf("%s: %v", url, p)
		}
	}
}
