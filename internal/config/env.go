package config

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/headgate-ai/headgate/internal/config/source"
)

// known are the providers that can be had by setting an environment variable.
var known = []struct {
	name, dialect, key, url, fallback string
	globs                             []string
}{
	{"openai", "openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", []string{"gpt-*", "chatgpt-*", "o1*", "o3*", "o4*", "text-embedding-*", "text-moderation-*", "omni-moderation-*", "whisper-*", "tts-*", "dall-e-*"}},
	{"anthropic", "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com", []string{"claude-*"}},
}

// EnvNames are the variables that a configuration can be built from.
const EnvNames = "OPENAI_API_KEY, ANTHROPIC_API_KEY"

// FromEnv writes the configuration that environment variables mean. It is a
// document like any other, and holds references to the variables and not their
// values. ok is false where no provider's key is set.
//
//	OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL  providers; the first takes models of any name
//	HEADGATE_LISTEN, HEADGATE_ADMIN_LISTEN                                  addresses
//	HEADGATE_API_KEY                                                        the clients' key; without it none is needed
//	HEADGATE_ADMIN_TOKEN                                                    the operators' token
func FromEnv(getenv func(string) string) (doc source.Document, ok bool) {
	return envDocument(getenv, false)
}

// ForDemo is FromEnv with the simulator among the providers, and a key needed
// in any case: the variable HEADGATE_API_KEY, which the caller sees to.
func ForDemo(getenv func(string) string) source.Document {
	doc, _ := envDocument(getenv, true)
	return doc
}

func envDocument(getenv func(string) string, demo bool) (source.Document, bool) {
	var providers, models bytes.Buffer
	first := ""
	for _, k := range known {
		if getenv(k.key) == "" {
			continue
		}
		base := k.fallback
		if v := getenv(k.url); v != "" {
			base = v
		}
		fmt.Fprintf(&providers, "  - {name: %s, dialect: %s, base_url: %q, credentials: [{secret: \"env:%s\"}]}\n", k.name, k.dialect, base, k.key)
		for _, glob := range k.globs {
			fmt.Fprintf(&models, "  - {name: %q, targets: [{provider: %s}]}\n", glob, k.name)
		}
		if first == "" {
			first = k.name
		}
	}
	if first != "" {
		// Compatible servers have models of any name.
		fmt.Fprintf(&models, "  - {name: \"*\", targets: [{provider: %s}]}\n", first)
	}
	if demo {
		providers.WriteString("  - {name: sim, dialect: simulator, simulator: {first_token: 150ms, token_gap: 20ms}}\n")
		models.WriteString("  - {name: demo, targets: [{provider: sim}]}\n  - {name: \"demo+*\", targets: [{provider: sim}]}\n  - {name: \"sim-*\", targets: [{provider: sim}]}\n")
	}
	ok := providers.Len() > 0
	var b strings.Builder
	b.WriteString("server:\n")
	listener(&b, "api", getenv("HEADGATE_LISTEN"), "127.0.0.1:8080", "")
	token := ""
	if getenv("HEADGATE_ADMIN_TOKEN") != "" {
		token = ", token: \"env:HEADGATE_ADMIN_TOKEN\""
	}
	listener(&b, "admin", getenv("HEADGATE_ADMIN_LISTEN"), "127.0.0.1:8081", token)
	if getenv("HEADGATE_API_KEY") == "" && !demo {
		b.WriteString("auth: none\n")
	} else {
		b.WriteString("keys:\n  - {name: env, secret: \"env:HEADGATE_API_KEY\"}\n")
	}
	b.WriteString("providers:\n" + providers.String() + "models:\n" + models.String())
	return source.NewDocument("environment", []byte(b.String())), ok
}

func listener(b *strings.Builder, name, addr, fallback, more string) {
	if addr == "" {
		addr = fallback
	}
	fmt.Fprintf(b, "  %s: {listen: %q%s}\n", name, addr, more)
}
