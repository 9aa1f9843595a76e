package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/internal/config/source/static"
)

const operatorsYAML = `
server: {api: {listen: "127.0.0.1:0", shutdown_grace: 100ms}, admin: {listen: "127.0.0.1:0", token: "literal:operators-token"}}
providers: [{name: sim, dialect: simulator}]
models: [{name: demo, targets: [{provider: sim, model: sim-small}]}]
tiers: {gold: {class: P0}}
keystore: {path: %[1]s/keys.json}
prices: [{model: "*", input: 1, output: 2}]
quota: {rules: [{name: each, per: [key], requests: {rate: 1000/s}}, {name: moves, requests: {rate: 500/s, burst: 900}, adapt: {health: true}}]}
ledger: {kind: sqlite, path: %[1]s/ledger.db}
`

// desk is a running gateway and the command line in front of it.
type desk struct {
	t          *testing.T
	dir        string
	api, admin string
	env        map[string]string
	stdin      io.Reader
	stop       func()
}

func open(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), env: map[string]string{"HEADGATE_ADMIN_TOKEN": "operators-token"}}
	yaml := fmt.Sprintf(operatorsYAML, d.dir)
	a, err := app.New(t.Context(), app.Options{Source: static.New("test.yaml", []byte(yaml)), LogOutput: io.Discard, Level: slog.LevelError})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	d.api, d.admin = "http://"+a.API(), "http://"+a.Admin()
	d.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(d.stop)
	if err := os.WriteFile(filepath.Join(d.dir, "headgate.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

// run runs a command and wants its exit status.
func (d *desk) run(status int, args ...string) (out, errs string) {
	d.t.Helper()
	var stdout, stderr bytes.Buffer
	env := &Env{Stdout: &stdout, Stderr: &stderr, Getenv: func(n string) string { return d.env[n] }, Stdin: d.stdin}
	if got := Main(d.t.Context(), args, env); got != status {
		d.t.Errorf("headgate %s: exit status %d, want %d\n%s\n%s", strings.Join(args, " "), got, status, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String()
}

// call asks the model with a key.
func (d *desk) call(key string) int {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), "POST", d.api+"/v1/chat/completions", strings.NewReader(`{"model":"demo","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(key))
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// becomes waits at most a second for a key to have a status.
func (d *desk) becomes(key string, status int) {
	d.t.Helper()
	end := time.Now().Add(time.Second)
	for d.call(key) != status {
		if time.Now().After(end) {
			d.t.Fatalf("the key does not have the status %d", status)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (d *desk) json(text string) (m map[string]any) {
	d.t.Helper()
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		d.t.Fatalf("%v in %s", err, text)
	}
	return m
}

// The same commands, on the file beside the gateway and on its admin API.
func TestKeysCommands(t *testing.T) {
	d := open(t)
	config := filepath.Join(d.dir, "headgate.yaml")
	for name, where := range map[string][]string{"file": {"--config", config}, "api": {"--admin", d.admin}} {
		with := func(args ...string) []string { return append(args, where...) }
		key, errs := d.run(0, with("keys", "create", name, "--tier", "gold", "--scope", "chat:write", "--expires", "30d")...)
		if !strings.HasPrefix(key, "gk_") || strings.Count(key, "\n") != 1 || strings.Contains(errs, strings.TrimSpace(key)) {
			t.Fatalf("%q %q", key, errs)
		}
		d.becomes(key, 200)
		id := strings.Split(key, "_")[1]
		list, _ := d.run(0, with("keys", "list")...)
		if !strings.Contains(list, id) || strings.Contains(list, strings.TrimSpace(key)) || !strings.Contains(list, "active") {
			t.Error(list)
		}
		// Nobody to ask, the wrong answer, the right one, no question.
		if _, errs := d.run(1, with("keys", "rotate", id)...); !strings.Contains(errs, "--yes") {
			t.Error(errs)
		}
		d.stdin = strings.NewReader("no\n")
		d.run(1, with("keys", "rotate", id)...)
		d.stdin = strings.NewReader("y\n")
		out, _ := d.run(0, with("keys", "rotate", id, "--grace", "1h", "--json")...)
		d.stdin = nil
		fresh := d.json(out)
		if fresh["rotated_from"] != id || fresh["retired"].(map[string]any)["state"] != "retiring" {
			t.Error(out)
		}
		d.becomes(fresh["key"].(string), 200)
		d.becomes(key, 200)
		out, _ = d.run(0, with("keys", "revoke", id, "--yes")...)
		if !strings.Contains(out, "is revoked") {
			t.Error(out)
		}
		d.becomes(key, 401)
		d.becomes(fresh["key"].(string), 200)
		d.run(1, with("keys", "revoke", "nothing", "--yes")...)
		if _, errs := d.run(1, with("keys", "create", "x", "--tier", "platinum")...); !strings.Contains(errs, "known tiers are gold") {
			t.Error(errs)
		}
	}
	out, _ := d.run(0, "keys", "list", "--file", filepath.Join(d.dir, "keys.json"), "--json")
	if keys := d.json(out)["keys"].([]any); len(keys) != 4 || strings.Contains(out, "hash") {
		t.Error(out)
	}
	d.run(2, "keys", "create", "x", "--expires", "soon")
	d.run(2, "keys", "rotate", "x", "--grace", "soon")
	d.run(2, "keys", "list", "--file", "x", "--admin", d.admin)
	d.run(2, "keys", "list", "--admin", "nowhere")
	d.run(2, "keys", "create")
	d.run(1, "keys", "list", "--admin", "http://127.0.0.1:1")
	t.Chdir(t.TempDir())
	d.run(1, "keys", "list")
	d.env["HEADGATE_ADMIN_TOKEN"] = "wrong"
	if _, errs := d.run(1, "keys", "list", "--admin", d.admin); !strings.Contains(errs, "admin token") || strings.Contains(errs, "wrong") {
		t.Error(errs)
	}
}

func TestUsageCommands(t *testing.T) {
	d := open(t)
	key, _ := d.run(0, "keys", "create", "one", "--admin", d.admin)
	for range 3 {
		d.becomes(key, 200)
	}
	file := filepath.Join(d.dir, "ledger.db")
	flat, _ := d.run(0, "usage", "--admin", d.admin, "--json")
	m := d.json(flat)
	if m["requests"] != 3.0 || m["cost_usd"].(float64) <= 0 {
		t.Error(flat)
	}
	// Both ways give the same, in each form.
	for _, form := range [][]string{{}, {"--csv"}, {"--by", "key,model"}, {"--by", "key,model", "--json"}, {"--by", "day", "--csv", "--from", "1d"}, {"--model", "demo"}, {"--key", "none"}} {
		asked, _ := d.run(0, append([]string{"usage", "--admin", d.admin}, form...)...)
		readOut, _ := d.run(0, append([]string{"usage", "--ledger", file}, form...)...)
		if asked != readOut || asked == "" {
			t.Errorf("%v:\n%s\n%s", form, asked, readOut)
		}
	}
	for _, form := range [][]string{{}, {"--json", "--model", "demo"}, {"--csv", "--from", "1d", "--key", "one"}} {
		asked, _ := d.run(0, append([]string{"usage", "export", "--admin", d.admin}, form...)...)
		readOut, _ := d.run(0, append([]string{"usage", "export", "--ledger", file}, form...)...)
		if asked != readOut || strings.Count(asked, "sim-small") != 3 {
			t.Errorf("%v:\n%s\n%s", form, asked, readOut)
		}
	}
	if out, _ := d.run(0, "usage", "export", "--admin", d.admin, "--model", "none"); out != "[]\n" {
		t.Error(out)
	}
	d.run(2, "usage", "export", "--until", "never", "--ledger", file)
	d.run(1, "usage", "export", "--admin", "http://127.0.0.1:1")
	if out, _ := d.run(0, "usage", "show", "--ledger", file, "--by", "key"); !strings.HasPrefix(strings.Join(strings.Fields(out), " "), "KEY REQUESTS INPUT_TOKENS CACHED_TOKENS OUTPUT_TOKENS COST_USD UNPRICED_REQUESTS one 3 ") {
		t.Error(out)
	}
	d.run(2, "usage", "--by", "color", "--ledger", file)
	d.run(2, "usage", "--from", "never", "--ledger", file)
	d.run(2, "usage", "--json", "--csv", "--ledger", file)
	d.run(2, "usage", "--admin", d.admin, "--ledger", file)
	d.run(1, "usage", "--ledger", filepath.Join(d.dir, "none.db"))
	if _, err := os.Stat(filepath.Join(d.dir, "none.db")); err == nil {
		t.Error("a ledger was made by reading it")
	}

	invoice := filepath.Join(d.dir, "invoice.csv")
	write := func(output int64) {
		t.Helper()
		text := fmt.Sprintf("date,model,output_tokens\n%s,sim-small,%d\n", time.Now().UTC().Format(time.DateOnly), output)
		if err := os.WriteFile(invoice, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output := int64(m["completion_tokens"].(float64))
	write(output)
	if out, _ := d.run(0, "usage", "reconcile", invoice, "--ledger", file, "--all"); !strings.Contains(out, "1 match") {
		t.Error(out)
	}
	write(output + 5)
	if out, _ := d.run(1, "usage", "reconcile", invoice, "--ledger", file, "--json"); !strings.Contains(out, `"differs": 1`) {
		t.Error(out)
	}
	for _, form := range [][]string{{"--json"}, {"--csv"}, {"--provider", "demo", "--from", "1d"}} {
		asked, _ := d.run(1, append([]string{"usage", "reconcile", invoice, "--admin", d.admin}, form...)...)
		readOut, _ := d.run(1, append([]string{"usage", "reconcile", invoice, "--ledger", file}, form...)...)
		if asked != readOut || !strings.Contains(asked, "sim-small") {
			t.Errorf("%v:\n%s\n%s", form, asked, readOut)
		}
	}
	d.run(2, "usage", "reconcile", invoice, "--ledger", file, "--admin", d.admin)
	d.run(0, "usage", "reconcile", invoice, "--ledger", file, "--tokens", "5", "--csv")
	d.run(2, "usage", "reconcile", invoice, "--ledger", file, "--usd", "much")
	d.run(2, "usage", "reconcile", invoice, "--ledger", file, "--share", "2")
	d.run(2, "usage", "reconcile", filepath.Join(d.dir, "none.csv"))
}

func TestLimitsCommands(t *testing.T) {
	d := open(t)
	key, _ := d.run(0, "keys", "create", "one", "--admin", d.admin)
	d.becomes(key, 200)
	on := func(args ...string) []string { return append(args, "--admin", d.admin) }
	out, _ := d.run(0, on("limits", "set", "each", "7/s", "--burst", "9", "--ttl", "1d", "--reason", "test", "--yes")...)
	if out != "each/requests: 7/s, burst 9, was 1000/s, burst 1000\n" {
		t.Error(out)
	}
	if out, _ := d.run(0, on("limits", "--top", "3")...); !strings.Contains(out, "operator") || !strings.Contains(out, "each/requests|key=one|tenant=one") {
		t.Error(out)
	}
	if out, _ := d.run(0, on("limits")...); !strings.Contains(out, "configuration, 500/s, 900 × health 1.00") {
		t.Errorf("%s", out)
	}
	if out, _ := d.run(0, on("limits", "list", "--json")...); len(d.json(out)["overrides"].([]any)) != 1 {
		t.Error(out)
	}
	if _, errs := d.run(1, on("limits", "set", "none", "7/s", "--reason", "r", "--yes")...); !strings.Contains(errs, "known rules are each") {
		t.Error(errs)
	}
	out, _ = d.run(0, on("limits", "set", "each", "5/s", "--subject", "key=one,tenant=one", "--reason", "test", "--yes")...)
	if out != "each key=one tenant=one/requests: 5/s, burst -, was 7/s, burst 9\n" {
		t.Error(out)
	}
	if out, _ := d.run(0, on("limits")...); !strings.Contains(out, "each key=one tenant=one  requests   5/s   -      it is reset") {
		t.Errorf("%s", out)
	}
	d.run(0, on("limits", "reset", "each", "--subject", "key=one,tenant=one", "--yes")...)
	d.run(1, on("limits", "reset", "each", "--subject", "key=one,tenant=one", "--yes")...)
	d.run(2, on("limits", "set", "each", "5/s", "--subject", "one", "--reason", "test")...)
	d.run(0, on("limits", "reset", "each", "--reason", "over", "--yes")...)
	d.run(1, on("limits", "reset", "each", "--yes")...)
	d.run(2, on("limits", "set", "each", "7 a second", "--reason", "r")...)
	d.run(2, on("limits", "set", "each", "7/s")...)
	d.run(2, on("limits", "set", "each", "7/s", "--reason", "r", "--ttl", "x")...)

	if out, _ := d.run(0, on("degrade", "set", "3", "--ttl", "1m", "--reason", "r", "--yes")...); !strings.HasPrefix(out, "level 3 until ") {
		t.Error(out)
	}
	if out, _ := d.run(0, on("degrade", "--json")...); d.json(out)["level"] != 3.0 {
		t.Error(out)
	}
	if out, _ := d.run(0, on("degrade", "set", "0", "--reason", "r")...); out != "level 0\n" {
		t.Error(out)
	}
	if out, _ := d.run(0, on("degrade", "set", "1", "--model", "demo", "--ttl", "1m", "--reason", "r")...); !strings.HasPrefix(out, "demo: level 1 until ") {
		t.Error(out)
	}
	if out, _ := d.run(0, on("degrade")...); !strings.HasPrefix(out, "level 0\ndemo: level 1 until ") {
		t.Error(out)
	}
	d.run(1, on("degrade", "set", "1", "--model", "none", "--ttl", "1m", "--reason", "r")...)
	d.run(2, on("degrade", "set", "4", "--reason", "r")...)
	d.run(2, on("degrade", "set", "3", "--reason", "r")...)

	if out, _ := d.run(0, on("audit")...); !strings.Contains(out, "limits.set") || !strings.Contains(out, "degrade") || !strings.Contains(out, "keys.create") {
		t.Error(out)
	}
	if out, _ := d.run(0, on("audit", "--limit", "2", "--json")...); len(d.json(out)["entries"].([]any)) != 2 {
		t.Error(out)
	}
	d.run(2, on("audit", "--limit", "0")...)
}

// Every command shows an example, and takes --json.
func TestOperatorsHelp(t *testing.T) {
	d := &desk{t: t}
	for _, c := range [][]string{
		{"keys", "list"}, {"keys", "create"}, {"keys", "rotate"}, {"keys", "revoke"}, {"usage", "show"}, {"usage", "export"}, {"usage", "reconcile"},
		{"limits", "list"}, {"limits", "set"}, {"limits", "reset"}, {"degrade", "show"}, {"degrade", "set"}, {"audit"},
	} {
		out, _ := d.run(0, append(c, "--help")...)
		if !strings.Contains(out, "headgate "+c[0]) || !strings.Contains(out, "Example") || !strings.Contains(out, "--json") {
			t.Errorf("%v: %s", c, out)
		}
	}
	for _, group := range []string{"keys", "usage", "limits", "degrade", "experiment"} {
		if out, _ := d.run(0, group, "--help"); !inOrder(out, "Example", "headgate "+group+" ", "Flags") {
			t.Errorf("%s: %s", group, out)
		}
	}
}

func inOrder(text string, parts ...string) bool {
	for _, part := range parts {
		_, rest, ok := strings.Cut(text, part)
		if text = rest; !ok {
			return false
		}
	}
	return true
}

func TestParseWhen(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for text, want := range map[string]string{
		"": "0001-01-01T00:00:00Z", "2d": "2026-05-02T03:02:01Z", "90m": "2026-05-04T01:32:01Z", "2026-01-02": "2026-01-02T00:00:00Z", "2026-01-02T03:04:05+01:00": "2026-01-02T02:04:05Z",
	} {
		got, err := parseWhen(text, -1, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "-3h", "-1d", "d", "99999d", "2026-13-01", "1.5d"} {
		if got, err := parseWhen(text, 1, now); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
	if got, err := parseWhen("1h", 1, now); err != nil || !got.Equal(now.Add(time.Hour)) {
		t.Error(got, err)
	}
}

func FuzzParseWhen(f *testing.F) {
	for _, s := range []string{"30d", "24h", "2026-01-02", "2026-01-02T03:04:05Z", "", "1e9h"} {
		f.Add(s)
	}
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		ahead, err := parseWhen(text, 1, now)
		behind, err2 := parseWhen(text, -1, now)
		if (err == nil) != (err2 == nil) {
			t.Errorf("%q: %v, %v", text, err, err2)
		}
		if _, length := parseLength(text); err == nil && length == nil && ahead.Before(behind) {
			t.Errorf("%q: %s is before %s", text, ahead, behind)
		}
	})
}
