package app_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/llm"
)

// K6: where a key may stand, and what is refused.
func TestCredentials(t *testing.T) {
	t.Parallel()
	past, future := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	g := start(t, setup{Keys: `
- {name: old, secret: "literal:sk-expired", expires: "` + past + `"}
- {name: young, secret: "literal:sk-valid", expires: "` + future + `"}
- {name: narrow, secret: "literal:sk-narrow", models: ["chat", "sim-s*"]}`})
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+key))
	for _, c := range []struct {
		path    string
		headers []string
		status  int
		says    string
	}{
		{chatPath, []string{"Authorization", "Bearer " + key}, 200, ""},
		{chatPath, []string{"Authorization", "bearer   " + key + " "}, 200, ""},
		{chatPath, []string{"Authorization", "-", "X-Api-Key", key}, 200, ""},
		{chatPath, []string{"Authorization", "-", "X-Goog-Api-Key", key}, 200, ""},
		{chatPath, []string{"Authorization", "-", "Api-Key", key}, 200, ""},
		{chatPath + "?key=" + key, []string{"Authorization", "-"}, 200, ""},
		{chatPath + "?x=1&key=" + key, []string{"Authorization", "-"}, 200, ""},
		{chatPath, []string{"Authorization", "-"}, 401, "No API key"},
		{chatPath, []string{"Authorization", "Bearer"}, 401, "No API key"},
		{chatPath, []string{"Authorization", "Bearer " + key[:len(key)-1]}, 401, "not known"},
		{chatPath, []string{"Authorization", "Bearer " + key + "x"}, 401, "not known"},
		{chatPath, []string{"Authorization", "Bearer " + strings.ToUpper(key)}, 401, "not known"},
		{chatPath, []string{"Authorization", "Bearer wrong", "X-Api-Key", key}, 401, "not known"},
		{chatPath, []string{"Authorization", basic}, 401, "Bearer"},
		{chatPath, []string{"Authorization", "Bearer sk-expired"}, 401, "expired"},
		{chatPath, []string{"Authorization", "Bearer sk-valid"}, 200, ""},
		{chatPath, []string{"Authorization", "Bearer " + upstreamKey}, 401, "not known"},
		{chatPath, []string{"Authorization", "Bearer sk-narrow"}, 200, ""},
	} {
		a := g.post(c.path, chatBody, c.headers...)
		if a.StatusCode != c.status {
			t.Errorf("%s %v: %d %s", c.path, c.headers, a.StatusCode, a.Bytes)
		}
		if c.status == 200 {
			continue
		}
		code, message := envelope(t, a, llm.OpenAI)
		if code != "invalid_api_key" || !strings.Contains(message, c.says) || a.Header.Get("Www-Authenticate") == "" {
			t.Errorf("%s %v: %s", c.path, c.headers, a.Bytes)
		}
		a = g.post(msgPath, msgBody, c.headers...)
		if kind, _ := envelope(t, a, llm.Anthropic); a.StatusCode != 401 || kind != "authentication_error" {
			t.Errorf("Anthropic: %d %s", a.StatusCode, a.Bytes)
		}
	}
	// A model that the key does not cover: the same words, existing or not.
	words := map[string]bool{}
	for _, model := range []string{"haiku", "gpt-4", "nothing-like-it", "anthropic/claude-x"} {
		a := g.post(chatPath, strings.Replace(chatBody, "chat", model, 1), "Authorization", "Bearer sk-narrow")
		code, message := envelope(t, a, llm.OpenAI)
		if a.StatusCode != 403 || code != "MODEL_NOT_ALLOWED" {
			t.Errorf("%s: %d %s", model, a.StatusCode, a.Bytes)
		}
		words[message] = true
	}
	if len(words) != 1 {
		t.Errorf("the answers differ: %v", words)
	}
	for model, status := range map[string]int{"chat": 200, "haiku": 404, "nothing": 404} {
		if a := g.get("/v1/models/"+model, "Authorization", "Bearer sk-narrow"); a.StatusCode != status {
			t.Errorf("GET model %s: %d", model, a.StatusCode)
		}
	}
}

// K6: which scope opens which route.
func TestScopes(t *testing.T) {
	t.Parallel()
	grants := map[string][]string{ // scope: the operations it opens
		"chat:write":        {"chat", "text_completion", "responses", "count_tokens"},
		"chat.write":        {"chat", "text_completion", "responses", "count_tokens"},
		"embeddings:write":  {"embeddings"},
		"moderations:write": {"moderations"},
		"images:write":      {"images"},
		"audio:write":       {"speech", "transcriptions"},
		"models:read":       {"models.list", "models.get"},
		"inference":         {"chat", "text_completion", "responses", "count_tokens", "embeddings", "moderations", "images", "speech", "transcriptions"},
		"*":                 {"chat", "text_completion", "responses", "count_tokens", "embeddings", "moderations", "images", "speech", "transcriptions", "models.list", "models.get"},
	}
	var keys strings.Builder
	names := map[string]string{}
	for scope := range grants {
		name := fmt.Sprintf("k%d", len(names))
		names[scope] = "sk-scoped-" + name
		fmt.Fprintf(&keys, "- {name: %s, secret: \"literal:sk-scoped-%s\", scopes: [\"%s\"]}\n", name, name, scope)
	}
	g := start(t, setup{Keys: keys.String()})
	for scope, secret := range names {
		open := map[string]bool{}
		for _, op := range grants[scope] {
			open[op] = true
		}
		for _, r := range edge.Routes() {
			if r.Op == llm.LimitStatus {
				continue // open to every key
			}
			// The body is wrong on purpose: authorisation comes first, and a call
			// that passes it is refused for the body instead.
			path := strings.Replace(r.Pattern, "{id}", "chat", 1)
			a := g.whole(g.send(g.request(r.Method, path, strings.NewReader("{"), "Authorization", "Bearer "+secret)))
			if open[string(r.Op)] {
				if a.StatusCode == 403 {
					t.Errorf("%s does not open %s", scope, r.Pattern)
				}
				continue
			}
			if code, _ := envelope(t, a, r.Dialect); a.StatusCode != 403 || r.Dialect == llm.OpenAI && code != "FORBIDDEN" {
				t.Errorf("%s and %s: %d %s", scope, r.Pattern, a.StatusCode, a.Bytes)
			}
		}
	}
}

// A key that a reload has removed fails with the next request; a new one and
// an old one overlap for as long as the configuration names both.
func TestRevocation(t *testing.T) {
	t.Parallel()
	base := setup{Keys: `- {name: rotating, secret: "literal:sk-first"}`}
	g := start(t, base)
	use := func(secret string) int {
		return g.post(chatPath, chatBody, "Authorization", "Bearer "+secret).StatusCode
	}
	for _, step := range []struct {
		keys          string
		first, second int
	}{
		{`- {name: rotating, secret: "literal:sk-first"}`, 200, 401},
		{"- {name: rotating, secret: \"literal:sk-first\"}\n- {name: rotating-2, secret: \"literal:sk-second\"}", 200, 200},
		{`- {name: rotating-2, secret: "literal:sk-second"}`, 401, 200},
		{``, 401, 401},
	} {
		if err := g.reload(setup{Keys: step.keys}.document(g.UpstreamURL)); err != nil {
			t.Fatal(err)
		}
		if a, b := use("sk-first"), use("sk-second"); a != step.first || b != step.second {
			t.Errorf("%q: %d and %d, want %d and %d", step.keys, a, b, step.first, step.second)
		}
	}
}

// No credential, the clients' or the providers', is seen anywhere: not in what
// the client gets of a provider that repeats it, not in the log, the records,
// the metrics or the admin API.
func TestCredentialsAreNotSeen(t *testing.T) {
	t.Parallel()
	var mode string
	s := &scripted{}
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		secret := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("X-Api-Key")
		text := "Incorrect API key provided: " + secret + " at " + r.Host
		body := `{"error":{"message":"` + text + `","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`
		if r.Header.Get("X-Api-Key") != "" {
			body = `{"type":"error","error":{"type":"authentication_error","message":"` + text + `"}}`
		}
		w.Header().Set("Content-Type", "application/json")
		switch mode {
		case "401":
			w.WriteHeader(401)
		case "400 text":
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(400)
			body = text
		case "500 detail":
			w.WriteHeader(500)
			body = `{"detail":"` + text + `"}`
		case "200 error":
		case "302":
			w.Header().Set("Location", "http://"+r.Host+"/login?token="+secret)
			w.WriteHeader(302)
		case "stream":
			w.Header().Set("Content-Type", "text/event-stream")
			body = "data: " + body + "\n\n"
			if r.Header.Get("X-Api-Key") != "" {
				body = "event: error\n" + body
			}
		case "broken":
			body = body[:len(body)-3]
		}
		_, _ = io.WriteString(w, body)
	}
	const token = "admin-token-1234567890"
	yaml := strings.Replace(setup{Provider: "headers: {X-Extra: \"literal-header-secret\"}"}.document("%s"),
		`admin: {listen: "127.0.0.1:0"}`, `admin: {listen: "127.0.0.1:0", token: "literal:`+token+`"}`, 1)
	g := start(t, setup{YAML: yaml, Upstream: s})
	host := strings.TrimPrefix(g.UpstreamURL, "http://")
	for _, mode = range []string{"401", "400 text", "500 detail", "200 error", "302", "stream", "broken"} {
		for path, body := range map[string]string{chatPath: chatBody, msgPath: msgBody} {
			for _, at := range []string{"header", "query", "basic", "both", "wrong"} {
				headers := []string{"Authorization", "-"}
				url := path
				switch at {
				case "header":
					headers = []string{"X-Api-Key", key}
				case "query":
					url += "?key=" + key + "&api_key=" + key + "&" + key + "=1"
				case "basic":
					headers = []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+key))}
				case "both":
					headers = []string{"Authorization", "Bearer " + key, "X-Api-Key", key}
				case "wrong":
					url = "/v1/nothing/" + key + "?key=" + key
				}
				if mode == "stream" {
					body = strings.Replace(body, "{", `{"stream":true,`, 1)
				}
				a := g.post(url, body, headers...)
				for _, secret := range []string{upstreamKey, token, "literal-header-secret", host} {
					if mode == "302" && secret == host {
						continue // that is where the provider sends the client
					}
					if bytes.Contains(a.Bytes, []byte(secret)) || strings.Contains(fmt.Sprint(a.Header), secret) {
						t.Errorf("%s, key in %s: the client sees %s: %v %s", mode, at, secret, a.Header, a.Bytes)
					}
				}
			}
		}
	}
	admin := func(path string) string {
		return string(g.admin("GET", path, "Authorization", "Bearer "+token).Bytes)
	}
	seen := map[string]string{
		"metrics": admin("/metrics"), "config": admin("/admin/v1/config"), "requests": admin("/admin/v1/requests?limit=1000"), "usage": admin("/admin/v1/usage"),
	}
	if err := g.reload(strings.Replace(string(yaml), "providers:", "provider"+"z: literal:"+upstreamKey+"\nproviders:", 1)); err == nil {
		t.Error("a wrong configuration was taken")
	}
	seen["rejected config"] = admin("/admin/v1/config")
	if !strings.Contains(seen["requests"], `"stream":true`) || !strings.Contains(seen["config"], "literal:[redacted]") {
		t.Error("the scan sees too little")
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	seen["log"] = g.Log.String()
	for what, text := range seen {
		for _, secret := range []string{key, upstreamKey, token, "literal-header-secret", base64.StdEncoding.EncodeToString([]byte("u:" + key))} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s shows %s: …%s…", what, secret, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}
}
