package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/source"
)

// The configuration of the contract loads as it stands.
func TestCoreConfiguration(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/core.yaml")
	if err != nil {
		t.Fatal(err)
	}
	loaded, mistakes := config.Load(source.NewDocument("core.yaml", text))
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	if len(loaded.Providers) != 2 || len(loaded.Models) != 4 || len(loaded.Keys) != 2 || loaded.Server.API.MaxBody != 64<<20 {
		t.Errorf("%+v", loaded.File)
	}
	// It also runs, on other ports and with other providers.
	yaml := strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:0", "127.0.0.1:8081", "127.0.0.1:0", "http://127.0.0.1:9100", "%s").Replace(string(text))
	g := start(t, setup{YAML: yaml})
	g.Key = "sk-headgate-acceptance"
	for path, body := range map[string]string{
		chatPath: chatBody, "/v1/embeddings": `{"model":"text-embedding-3-small","input":"x"}`,
		msgPath: `{"model":"claude-sonnet","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`,
	} {
		if a := g.post(path, body); a.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.Bytes)
		}
	}
	g.post(chatPath, chatBody)
	if up := g.upstream(); up.Header.Get("Authorization") != "Bearer sk-upstream-openai" || up.Model != "gpt-4o-mini" {
		t.Errorf("%s %v", up.Model, up.Header)
	}
}

func TestAdminConfig(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	first := g.admin("GET", "/admin/v1/config").JSON(t)
	hash, _ := first["hash"].(string)
	if len(hash) != 64 || first["source"] != "test.yaml" || first["rejected"] != nil || first["loaded_at"] == "" {
		t.Errorf("%v", first)
	}
	for _, c := range []struct {
		path []any
		want any
	}{
		{[]any{"config", "values", "providers", 0, "credentials", 0, "secret"}, "literal:[redacted]"},
		{[]any{"config", "values", "keys", 0, "secret"}, "literal:[redacted]"},
		{[]any{"config", "values", "server", "api", "max_body"}, "64MiB"},
		{[]any{"config", "origins", "server.api.listen"}, "test.yaml"},
		{[]any{"config", "origins", "server.api.max_body"}, "default"},
		{[]any{"config", "values", "models", 0, "targets", 0, "model"}, "sim-small"},
	} {
		if got := within(first, c.path...); got != c.want {
			t.Errorf("%v: %v, want %v", c.path, got, c.want)
		}
	}

	// A configuration with mistakes leaves the running one alone, and is shown.
	good := setup{}.document(g.UpstreamURL)
	g.Source.Set([]byte(strings.Replace(good, "targets: [{provider: openai}]", "targets: [{provider: opnai}]", 1)))
	a := g.admin("POST", "/admin/v1/reload")
	if m := a.JSON(t); a.StatusCode != 422 || m["reloaded"] != false || m["hash"] != hash || !strings.Contains(fmt.Sprint(m["errors"]), "opnai") {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
	if a := g.post(chatPath, chatBody); a.StatusCode != 200 {
		t.Errorf("after a rejected reload: %d", a.StatusCode)
	}
	second := g.admin("GET", "/admin/v1/config").JSON(t)
	mistake := fmt.Sprint(within(second, "rejected", "errors", 0))
	if second["hash"] != hash || !strings.HasPrefix(mistake, "test.yaml:") || !strings.Contains(mistake, "models[") || within(second, "rejected", "hash") == hash {
		t.Errorf("%v", second["rejected"])
	}

	// A good one is taken up, by the API as by the program.
	g.Source.Set([]byte(strings.Replace(good, "name: haiku", "name: limerick", 1)))
	a = g.admin("POST", "/admin/v1/reload")
	if m := a.JSON(t); a.StatusCode != 200 || m["reloaded"] != true || m["hash"] == hash {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
	if a := g.get("/v1/models/limerick"); a.StatusCode != 200 {
		t.Errorf("after a reload: %d", a.StatusCode)
	}
	if third := g.admin("GET", "/admin/v1/config").JSON(t); third["rejected"] != nil {
		t.Errorf("still rejected: %v", third["rejected"])
	}
	if err := g.reload(good); err != nil {
		t.Error(err)
	}
	if a := g.get("/v1/models/haiku"); a.StatusCode != 200 || g.admin("GET", "/admin/v1/config").JSON(t)["hash"] != hash {
		t.Errorf("after app.Reload: %d", a.StatusCode)
	}
	if g.metric("headgate_config_reloads_total", `result="ok"`) < 2 || g.metric("headgate_config_reloads_total", `result="rejected"`) < 1 || g.metric("headgate_config_info", hash) != 1 {
		t.Error("the reloads are not counted")
	}
}

func TestAdminRequests(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	var ids []string
	for i := range 5 {
		body := chatBody
		if i == 4 {
			body = `{`
		}
		ids = append(ids, g.post(chatPath, body, "X-Request-Id", fmt.Sprint("call-", i)).ID())
	}
	g.record(ids[4])
	list := func(query string) (got []string) {
		for _, r := range g.admin("GET", "/admin/v1/requests"+query).JSON(t)["requests"].([]any) {
			got = append(got, r.(map[string]any)["id"].(string))
		}
		return got
	}
	slices.Reverse(ids)
	if got := list(""); !slices.Equal(got, ids) {
		t.Errorf("%v", got)
	}
	if got := list("?limit=2"); !slices.Equal(got, ids[:2]) {
		t.Errorf("limit 2: %v", got)
	}
	for _, limit := range []string{"0", "-1", "x", "10001", "1.5"} {
		if a := g.admin("GET", "/admin/v1/requests?limit="+limit); a.StatusCode != 400 || within(a.JSON(t), "error", "message") == nil {
			t.Errorf("limit %s: %d %s", limit, a.StatusCode, a.Bytes)
		}
	}
	if a := g.admin("GET", "/admin/v1/requests/none"); a.StatusCode != 404 {
		t.Errorf("%d", a.StatusCode)
	}
	rec := g.record("call-0")
	for _, name := range []string{"time", "trace_id", "span_id", "method", "route", "proto", "client", "dialect", "operation", "key", "tenant", "asked", "model",
		"provider", "target", "attempts", "reused", "status", "upstream_status", "outcome", "bytes_in", "bytes_out", "usage", "stages_us", "own_us", "elapsed_us"} {
		if rec[name] == nil {
			t.Errorf("the record has no %s", name)
		}
	}
	if rec["asked"] != "chat" || rec["target"] != "openai/sim-small" || rec["bytes_in"] != float64(len(chatBody)) || within(rec, "usage", "output_tokens") != 16.0 {
		t.Errorf("%v", rec)
	}
	sum := 0.0
	for _, us := range rec["stages_us"].(map[string]any) {
		sum += us.(float64)
	}
	if total := rec["elapsed_us"].(float64); sum > total || sum < total-20 {
		t.Errorf("the stages sum to %v µs of %v", sum, total)
	}
	for query, status := range map[string]int{"": 200, "?model=chat": 200, "?key=test&tenant=tests": 200, "?color=red": 400} {
		if a := g.admin("GET", "/admin/v1/usage"+query); a.StatusCode != status {
			t.Errorf("usage%s: %d %s", query, a.StatusCode, a.Bytes)
		}
	}
	if text := string(g.admin("GET", "/admin/v1/usage?model=chat").Bytes); !strings.Contains(text, "64") {
		t.Errorf("four answers of 16 tokens: %s", text)
	}
}

func TestAdminGuard(t *testing.T) {
	t.Parallel()
	open := start(t, setup{})
	const token = "admin-token-1234567890"
	closed := start(t, setup{YAML: strings.Replace(setup{}.document("%s"), `admin: {listen: "127.0.0.1:0"}`, `admin: {listen: "127.0.0.1:0", token: "literal:`+token+`"}`, 1)})
	for _, c := range []struct {
		g       *Gateway
		method  string
		path    string
		headers []string
		status  int
	}{
		{open, "GET", "/admin/v1/config", nil, 200},
		{open, "GET", "/admin/v1/config", []string{"Host", "localhost:1234"}, 200},
		{open, "GET", "/admin/v1/config", []string{"Host", "[::1]"}, 200},
		{open, "GET", "/admin/v1/config", []string{"Host", "evil.example"}, 403},
		{open, "GET", "/admin/v1/config", []string{"Host", "127.0.0.1.evil.example:8081"}, 403},
		{open, "POST", "/admin/v1/reload", []string{"Host", "evil.example"}, 403},
		{open, "GET", "/debug/pprof/", []string{"Host", "evil.example"}, 403},
		{open, "GET", "/debug/pprof/", nil, 200},
		{open, "GET", "/debug/pprof/goroutine?debug=1", nil, 200},
		{open, "GET", "/debug/pprof/cmdline", nil, 200},
		{open, "GET", "/admin/v1/nothing", nil, 404},
		{open, "GET", "/metrics", []string{"Host", "prometheus.example"}, 200},
		{open, "GET", "/livez", nil, 200},
		{open, "GET", "/readyz", nil, 200},
		{open, "GET", "/v1/models", nil, 404},
		{closed, "GET", "/admin/v1/config", nil, 401},
		{closed, "GET", "/admin/v1/config", []string{"Authorization", "Bearer wrong"}, 401},
		{closed, "GET", "/admin/v1/config", []string{"Authorization", "Bearer " + key}, 401},
		{closed, "GET", "/admin/v1/config", []string{"Authorization", "Basic " + token}, 401},
		{closed, "GET", "/admin/v1/config", []string{"Authorization", token}, 401},
		{closed, "GET", "/admin/v1/config", []string{"Authorization", "Bearer " + token}, 200},
		{closed, "GET", "/admin/v1/config", []string{"Authorization", "bearer " + token, "Host", "gate.example"}, 200},
		{closed, "POST", "/admin/v1/reload", nil, 401},
		{closed, "GET", "/debug/pprof/", nil, 401},
		{closed, "GET", "/debug/pprof/", []string{"Authorization", "Bearer " + token}, 200},
		{closed, "GET", "/livez", nil, 200},
	} {
		a := c.g.admin(c.method, c.path, c.headers...)
		if a.StatusCode != c.status {
			t.Errorf("%s %s %q: %d, want %d: %.200s", c.method, c.path, c.headers, a.StatusCode, c.status, a.Bytes)
		}
		if c.status == http.StatusUnauthorized && a.Header.Get("Www-Authenticate") == "" {
			t.Errorf("%s %s: no Www-Authenticate", c.method, c.path)
		}
	}
	if a := open.admin("PUT", "/admin/v1/reload"); a.StatusCode == 200 {
		t.Error("a reload by PUT")
	}
	if a := open.get("/admin/v1/config"); a.StatusCode != 404 {
		t.Errorf("the admin API on the clients' listener: %d", a.StatusCode)
	}
	if a := open.get("/metrics"); a.StatusCode != 404 {
		t.Errorf("metrics on the clients' listener: %d", a.StatusCode)
	}
}

// An admin token, too, is replaced by a reload.
func TestAdminTokenFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first-token")
	g := start(t, setup{YAML: strings.Replace(setup{}.document("%s"), `admin: {listen: "127.0.0.1:0"}`, `admin: {listen: "127.0.0.1:0", token: "file:`+file+`"}`, 1)})
	write("second-token")
	if err := g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for token, status := range map[string]int{"first-token": 401, "second-token": 200} {
		if a := g.admin("GET", "/admin/v1/config", "Authorization", "Bearer "+token); a.StatusCode != status {
			t.Errorf("%s: %d", token, a.StatusCode)
		}
	}
}
