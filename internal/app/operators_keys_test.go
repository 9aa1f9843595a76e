package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/internal/authn"
)

// operate sends an operator's change.
func (g *Gateway) operate(method, path, body string, headers ...string) answer {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, g.AdminURL+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return g.whole(g.send(r))
}

// confirmed sends a change twice, as one that must be confirmed needs it.
func (g *Gateway) confirmed(method, path, body string) answer {
	g.t.Helper()
	a := g.operate(method, path, body)
	m := a.JSON(g.t)
	token, _ := m["confirm"].(string)
	if a.StatusCode != http.StatusPreconditionRequired || within(m, "error", "code") != "CONFIRMATION_REQUIRED" || token == "" || m["expires_in"] != 300.0 {
		g.t.Fatalf("%s %s without a confirmation: %d %s", method, path, a.StatusCode, a.Bytes)
	}
	return g.operate(method, path, body, "X-Confirm-Token", token)
}

const keyed = `
tiers: {gold: {class: P0}, batch: {class: P2}}
access: {roles: {reader: [models.read]}}
keystore: {path: %q}`

// as calls a model with a key and returns the status.
func (g *Gateway) as(secret string) int {
	g.t.Helper()
	return g.post(chatPath, chatBody, "Authorization", "Bearer "+secret).StatusCode
}

// soon waits less than a second for a key to have another status.
func (g *Gateway) soon(secret string, status int) {
	g.t.Helper()
	begun := time.Now()
	wait(g.t, fmt.Sprint("status ", status), func() bool { return g.as(secret) == status })
	if d := time.Since(begun); d > time.Second {
		g.t.Errorf("it took %s for the key to have the status %d", d, status)
	}
}

func TestOperatorsKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	g := start(t, setup{More: fmt.Sprintf(keyed, file)})
	if a := g.operate("GET", "/admin/v1/keys", ""); a.StatusCode != 200 || string(a.Bytes) != "{\"keys\":[]}\n" {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
	a := g.operate("POST", "/admin/v1/keys", `{"name":"app","tenant":"acme","user":"ann","tier":"gold","scopes":["chat:write"],"models":["chat"],"expires":"2100-01-01"}`)
	made := a.JSON(t)
	secret, _ := made["key"].(string)
	id, _ := made["id"].(string)
	if a.StatusCode != 201 || !strings.HasPrefix(secret, "gk_"+id+"_") || made["expires"] != "2100-01-01T00:00:00Z" || made["state"] != "active" {
		t.Fatalf("%d %s", a.StatusCode, a.Bytes)
	}
	if s := g.as(secret); s != 200 {
		t.Errorf("a new key: %d", s)
	}
	if a := g.post(chatPath, strings.Replace(chatBody, `"chat"`, `"sim-x"`, 1), "Authorization", "Bearer "+secret); a.StatusCode != 403 {
		t.Errorf("another model: %d", a.StatusCode)
	}
	// Rotated, both work; revoked, neither does.
	a = g.confirmed("POST", "/admin/v1/keys/"+id+"/rotate", `{"grace":"1h"}`)
	next := a.JSON(t)
	fresh, _ := next["key"].(string)
	if a.StatusCode != 201 || next["rotated_from"] != id || within(next, "retired", "state") != "retiring" || g.as(secret) != 200 || g.as(fresh) != 200 {
		t.Errorf("rotated: %d %s", a.StatusCode, a.Bytes)
	}
	for _, one := range []string{id, next["id"].(string)} {
		if a := g.confirmed("DELETE", "/admin/v1/keys/"+one, ""); a.StatusCode != 200 || a.JSON(t)["state"] != "revoked" {
			t.Errorf("revoked: %d %s", a.StatusCode, a.Bytes)
		}
	}
	if g.as(secret) != 401 || g.as(fresh) != 401 {
		t.Error("a revoked key works")
	}
	if a := g.operate("POST", "/admin/v1/keys/"+id+"/rotate", `{}`); a.StatusCode != 428 {
		t.Errorf("%d", a.StatusCode)
	}
	if a := g.confirmed("POST", "/admin/v1/keys/"+id+"/rotate", `{}`); a.StatusCode != 409 {
		t.Errorf("a revoked key is rotated: %d %s", a.StatusCode, a.Bytes)
	}
	// No answer but the one has the key, nor has the log, the record or the file.
	disk, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"list": string(g.operate("GET", "/admin/v1/keys", "").Bytes), "audit": string(g.operate("GET", "/admin/v1/audit", "").Bytes), "log": g.Log.String(), "file": string(disk),
		"requests": string(g.operate("GET", "/admin/v1/requests", "").Bytes),
	} {
		for _, s := range []string{secret, fresh} {
			if strings.Contains(text, s[len("gk_")+len(id)+1:]) {
				t.Errorf("%s holds a key", what)
			}
		}
		if (what == "list" || what == "audit") && (strings.Contains(text, "hash\"") || !strings.Contains(text, id)) {
			t.Errorf("%s: %s", what, text)
		}
	}
}

func TestOperatorsKeyMistakes(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: fmt.Sprintf(keyed, filepath.Join(t.TempDir(), "keys.json"))})
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"name":"a b"}`, 422, "name: "},
		{`{}`, 422, "name: "},
		{`{"name":"test"}`, 409, "key of the configuration"},
		{`{"name":"x","tier":"platinum"}`, 422, "known tiers are batch, gold"},
		{`{"name":"x","class":"P9"}`, 422, "P0, P1 or P2"},
		{`{"name":"x","roles":["king"]}`, 422, "roles[0]"},
		{`{"name":"x","scopes":["fly"]}`, 422, "unknown scope"},
		{`{"name":"x","expires":"tomorrow"}`, 400, "write a date"},
		{`{"name":"x","expires":"2020-01-01"}`, 422, "is over"},
		{`{"name":"x","color":"red"}`, 400, "color"},
		{`{"name":7}`, 400, `"name" cannot be a number`},
		{`{"name":"x"} {}`, 400, "goes on"},
		{`{`, 400, "unexpected"},
		{`{"name":"` + strings.Repeat("x", 70_000) + `"}`, 413, "larger than"},
	} {
		a := g.operate("POST", "/admin/v1/keys", c.body)
		message := fmt.Sprint(within(a.JSON(t), "error", "message"))
		if a.StatusCode != c.status || !strings.Contains(message, c.want) || within(a.JSON(t), "error", "code") == "" {
			t.Errorf("%.60s: %d %s, want %d %q", c.body, a.StatusCode, message, c.status, c.want)
		}
	}
	if a := g.operate("POST", "/admin/v1/keys", `{"name":"x"}`, "Content-Type", "text/plain"); a.StatusCode != 415 {
		t.Errorf("a form's content type: %d", a.StatusCode)
	}
	if a := g.operate("POST", "/admin/v1/keys", `{"name":"x"}`, "Sec-Fetch-Site", "cross-site"); a.StatusCode != 403 {
		t.Errorf("from another site: %d", a.StatusCode)
	}
	for _, path := range []string{"/admin/v1/keys/none/rotate", "/admin/v1/keys/none"} {
		method, body := "DELETE", ""
		if strings.HasSuffix(path, "rotate") {
			method, body = "POST", "{}"
		}
		if a := g.operate(method, path, body); a.StatusCode != 404 {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.Bytes)
		}
	}
	g.operate("POST", "/admin/v1/keys", `{"name":"twin"}`)
	if a := g.operate("POST", "/admin/v1/keys", `{"name":"twin"}`); a.StatusCode != 409 {
		t.Errorf("two of one name: %d %s", a.StatusCode, a.Bytes)
	}
	without := start(t, setup{})
	for _, method := range []string{"GET", "POST"} {
		if a := without.operate(method, "/admin/v1/keys", "{}"); a.StatusCode != 404 || !strings.Contains(string(a.Bytes), "keystore.path") {
			t.Errorf("without a keystore: %d %s", a.StatusCode, a.Bytes)
		}
	}
}

// What is changed beside a running gateway takes effect within a second and is
// on record; a file that cannot be read changes nothing.
func TestOperatorsKeyFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	ring := app.NewKeyRing(file, nil)
	first, made, err := ring.Create(authn.KeyHolder{Name: "first"})
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, setup{More: fmt.Sprintf(keyed, file)})
	if s := g.as(first); s != 200 {
		t.Errorf("a key from before the start: %d", s)
	}
	second, _, err := ring.Create(authn.KeyHolder{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	g.soon(second, 200)
	if _, err := ring.Revoke(made.ID); err != nil {
		t.Fatal(err)
	}
	g.soon(first, 401)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait(t, "a complaint", func() bool { return strings.Contains(g.Log.String(), "the file of keys cannot be used") })
	if g.as(second) != 200 || g.as(first) != 401 {
		t.Error("a broken file has changed the keys")
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	third, _, err := ring.Create(authn.KeyHolder{Name: "third"})
	if err != nil {
		t.Fatal(err)
	}
	g.soon(third, 200)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	g.soon(third, 401)
	record := string(g.operate("GET", "/admin/v1/audit", "").Bytes)
	for _, want := range []string{`"keys.create"`, `"keys.revoke"`, `"keys.delete"`, `"the file of keys"`, made.ID} {
		if !strings.Contains(record, want) {
			t.Errorf("the record has no %s: %s", want, record)
		}
	}
	if n := strings.Count(g.Log.String(), "the file of keys cannot be used"); n != 1 {
		t.Errorf("%d complaints of one mistake", n)
	}
}

// Two processes that change the file at once lose nothing of each other.
func TestKeyRingTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	const each = 10
	var makers sync.WaitGroup
	for i := range 3 {
		makers.Go(func() {
			ring := app.NewKeyRing(file, nil)
			for k := range each {
				if _, _, err := ring.Create(authn.KeyHolder{Name: fmt.Sprintf("key-%d-%d", i, k)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	makers.Wait()
	all, err := app.NewKeyRing(file, nil).List()
	if err != nil || len(all) != 3*each {
		t.Errorf("%d keys of %d, %v", len(all), 3*each, err)
	}
}
