package app_test

import (
	"bytes"
	"fmt"
	"maps"
	"mime/multipart"
	"slices"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/llm"
)

const (
	chatPath = "/v1/chat/completions"
	msgPath  = "/v1/messages"
	chatBody = `{"model":"chat","messages":[{"role":"user","content":"hi"}]}`
	msgBody  = `{"model":"haiku","max_tokens":20,"messages":[{"role":"user","content":"hi"}]}`
)

// envelope checks that an error answer is one of its dialect, complete.
func envelope(t testing.TB, a answer, d llm.Dialect) (code, message string) {
	t.Helper()
	if ct := a.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("an error has the content type %q", ct)
	}
	for _, name := range []string{"X-Request-Id", "X-Response-Mode", "Vary"} {
		if a.Header.Get(name) == "" {
			t.Errorf("an error has no %s", name)
		}
	}
	m := a.JSON(t)
	e, ok := m["error"].(map[string]any)
	if !ok {
		t.Fatalf("%d without an error object: %s", a.StatusCode, a.Bytes)
	}
	message, _ = e["message"].(string)
	kind, _ := e["type"].(string)
	if message == "" || kind == "" || kind != strings.ToLower(kind) {
		t.Errorf("message or type is wrong: %s", a.Bytes)
	}
	if d == llm.Anthropic {
		if keys := slices.Sorted(maps.Keys(m)); !slices.Equal(keys, []string{"error", "request_id", "type"}) || m["type"] != "error" || m["request_id"] != a.ID() {
			t.Errorf("not an Anthropic error: %s", a.Bytes)
		}
		return kind, message
	}
	if keys := slices.Sorted(maps.Keys(e)); !slices.Equal(keys, []string{"code", "details", "message", "param", "request_id", "type"}) {
		t.Errorf("not an OpenAI error: %s", a.Bytes)
	}
	code, _ = e["code"].(string)
	if _, ok := e["details"].(map[string]any); !ok || code == "" || e["request_id"] != a.ID() {
		t.Errorf("code, details or request_id is wrong: %s", a.Bytes)
	}
	if p := e["param"]; p != nil && p != fmt.Sprint(p) {
		t.Errorf("param is neither null nor a string: %s", a.Bytes)
	}
	return code, message
}

// form makes a multipart body of fields "name=value" and files "name@bytes".
func form(t testing.TB, parts ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		if name, value, ok := strings.Cut(p, "="); ok && !strings.Contains(name, "@") {
			_ = w.WriteField(name, value)
			continue
		}
		name, data, _ := strings.Cut(p, "@")
		f, err := w.CreateFormFile(name, "upload.bin")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write([]byte(data))
	}
	_ = w.Close()
	return b.String(), w.FormDataContentType()
}

// A1: every route, with a good call and with each kind of bad one.
func TestRoutes(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	good := map[llm.Operation]string{
		llm.Chat: `"messages":[{"role":"user","content":"hi"}],"max_tokens":8`, llm.CountTokens: `"messages":[{"role":"user","content":"hi"}]`,
		llm.Completion: `"prompt":"hi"`, llm.Responses: `"input":"hi"`, llm.Embeddings: `"input":"hi"`,
		llm.Moderations: `"input":"hi"`, llm.Images: `"prompt":"a cat"`, llm.Speech: `"input":"hi","voice":"alloy"`,
	}
	for _, r := range edge.Routes() {
		t.Run(r.Method+" "+r.Pattern, func(t *testing.T) {
			model := map[llm.Dialect]string{llm.OpenAI: "chat", llm.Anthropic: "haiku"}[r.Dialect]
			path := strings.Replace(r.Pattern, "{id}", model, 1)
			body, ct := `{"model":"`+model+`",`+good[r.Op]+`}`, "application/json"
			if r.Body == edge.FormBody || r.Pattern == "/v1/images/edits" {
				body, ct = form(t, "model="+model, "prompt=a cat", "file@some bytes", "image@some bytes")
			}
			call := func(method, body string, headers ...string) answer {
				return g.whole(g.send(g.request(method, path, strings.NewReader(body), append([]string{"Content-Type", ct}, headers...)...)))
			}
			a := call(r.Method, body)
			switch {
			case r.Pattern == "/v1/images/variations": // which the simulator does not know
				if a.StatusCode != 404 || g.upstream().Path != r.Pattern {
					t.Errorf("%d %s", a.StatusCode, a.Bytes)
				}
			case a.StatusCode != 200 || a.ID() == "" || a.Header.Get("X-Response-Mode") != "buffered" || !slices.Contains(a.Header.Values("Vary"), "Accept"):
				t.Errorf("%d %v %s", a.StatusCode, a.Header, a.Bytes)
			case r.Body != edge.NoBody && (g.upstream().Path != r.Pattern || a.Header.Get("X-Headgate-Target") == "" || a.Header.Get("X-Headgate-Attempts") != "1" || a.Header.Get("Server-Timing") == ""):
				t.Errorf("%v, upstream %s", a.Header, g.upstream().Path)
			}
			if rec := g.record(a.ID()); rec["route"] != r.Pattern || rec["operation"] != string(r.Op) || rec["dialect"] != string(r.Dialect) || rec["key"] != "test" || rec["tenant"] != "tests" {
				t.Errorf("record %v", rec)
			}
			if a = call(r.Method, body, "Authorization", "-"); a.StatusCode != 401 || a.Header.Get("Www-Authenticate") == "" {
				t.Errorf("no key: %d", a.StatusCode)
			}
			envelope(t, a, r.Dialect)
			if a = call("PUT", body); a.StatusCode != 405 || !strings.Contains(a.Header.Get("Allow"), r.Method) {
				t.Errorf("wrong method: %d, Allow %q", a.StatusCode, a.Header.Get("Allow"))
			}
			envelope(t, a, r.Dialect)
			if r.Body == edge.NoBody {
				return
			}
			if a = call(r.Method, body[:len(body)/2]); a.StatusCode != 400 {
				t.Errorf("half a body: %d %s", a.StatusCode, a.Bytes)
			}
			envelope(t, a, r.Dialect)
			if a = call(r.Method, body, "Content-Type", "text/plain"); a.StatusCode != 415 {
				t.Errorf("text/plain: %d", a.StatusCode)
			}
			envelope(t, a, r.Dialect)
			unknown := strings.Replace(body, model, "nothing-like-it", 1)
			if a = call(r.Method, unknown); a.StatusCode != 404 {
				t.Errorf("unknown model: %d", a.StatusCode)
			}
			envelope(t, a, r.Dialect)
		})
	}
}

func TestOpenAPIListsTheRoutes(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	a := g.get("/openapi.json", "Authorization", "-")
	doc := a.JSON(t)
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "application/json" || doc["openapi"] != "3.1.0" {
		t.Fatalf("%d %v", a.StatusCode, doc["openapi"])
	}
	got, want, ids := map[string]bool{}, map[string]bool{}, map[any]bool{}
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			got[strings.ToUpper(method)+" "+path] = true
			ids[within(op, "operationId")] = true
		}
	}
	for _, r := range edge.Routes() {
		want[r.Method+" "+r.Pattern] = true
	}
	if !maps.Equal(got, want) || len(ids) != len(want) {
		t.Errorf("described %v\nserved %v\n%d different ids", got, want, len(ids))
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if a := g.get(path, "Authorization", "-"); a.StatusCode != 200 {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: "auth: keys", Keys: "- {name: narrow, secret: \"literal:sk-narrow\", models: [chat]}"})
	for _, c := range []struct {
		method, path, body string
		status             int
		dialect            llm.Dialect
		allow              string
	}{
		{"GET", "/", "", 404, llm.OpenAI, ""},
		{"GET", "/v1", "", 404, llm.OpenAI, ""},
		{"GET", "/favicon.ico", "", 404, llm.OpenAI, ""},
		{"POST", "/v2/chat/completions", chatBody, 404, llm.OpenAI, ""},
		{"POST", "//v1/chat/completions", chatBody, 404, llm.OpenAI, ""},
		{"POST", "/v1//chat/completions", chatBody, 404, llm.OpenAI, ""},
		{"POST", "/v1/chat/completions/", chatBody, 404, llm.OpenAI, ""},
		{"POST", "/v1/../v1/chat/completions", chatBody, 404, llm.OpenAI, ""},
		{"POST", "/V1/Chat/Completions", chatBody, 404, llm.OpenAI, ""},
		{"POST", "/v1/chat%2Fcompletions", chatBody, 404, llm.OpenAI, ""},
		{"POST", "/v1/messages/", msgBody, 404, llm.Anthropic, ""},
		{"POST", "/v1/messages/batches", msgBody, 404, llm.Anthropic, ""},
		{"GET", "/v1/chat/completions", "", 405, llm.OpenAI, "POST"},
		{"DELETE", "/v1/models", "", 405, llm.OpenAI, "GET"},
		{"DELETE", "/v1/models/chat", "", 405, llm.OpenAI, "GET"},
		{"GET", "/v1/messages", "", 405, llm.Anthropic, "POST"},
		{"OPTIONS", "/v1/messages", "", 405, llm.Anthropic, "POST"},
		{"POST", "/anthropic/v1/messages", msgBody, 200, llm.Anthropic, ""},
		{"POST", "/anthropic/v1/messages/count_tokens", msgBody, 200, llm.Anthropic, ""},
		{"POST", "/openai/v1/chat/completions", chatBody, 200, llm.OpenAI, ""},
		{"GET", "/anthropic/v1/nothing", "", 404, llm.Anthropic, ""},
		{"GET", "/openai/v2/models", "", 404, llm.OpenAI, ""},
		{"GET", "/v1/models/chat", "", 200, llm.OpenAI, ""},
		{"GET", "/v1/models/openai%2Forg%2Fmodel:tag", "", 200, llm.OpenAI, ""},
		{"GET", "/v1/models/openai/org/model%3Atag", "", 200, llm.OpenAI, ""},
		{"GET", "/v1/models/nope/model", "", 404, llm.OpenAI, ""},
		{"GET", "/v1/models/", "", 404, llm.OpenAI, ""},
		{"POST", chatPath, strings.Replace(chatBody, "chat", "openai/sim-small", 1), 200, llm.OpenAI, ""},
		{"POST", chatPath, strings.Replace(chatBody, "chat", `openai\/sim-small`, 1), 200, llm.OpenAI, ""},
		{"POST", chatPath, strings.Replace(chatBody, "chat", "haiku", 1), 501, llm.OpenAI, ""},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			// URL.Opaque keeps the path as it is written.
			r := g.request(c.method, "/", strings.NewReader(c.body))
			r.URL.Opaque = "//" + g.API() + c.path
			a := g.whole(g.send(r))
			if a.StatusCode != c.status || a.Header.Get("Allow") != c.allow {
				t.Errorf("%d, Allow %q: %s", a.StatusCode, a.Header.Get("Allow"), a.Bytes)
			}
			if c.status >= 400 {
				envelope(t, a, c.dialect)
			}
		})
	}
	a := g.get("/v1/models/openai%2Forg%2Fmodel:tag")
	if id := a.JSON(t)["id"]; id != "openai/org/model:tag" {
		t.Errorf("id %v", id)
	}
	list := func(headers ...string) (ids []string) {
		for _, m := range g.get("/v1/models", headers...).JSON(t)["data"].([]any) {
			ids = append(ids, m.(map[string]any)["id"].(string))
		}
		return ids
	}
	if ids := list(); !slices.Equal(ids, []string{"chat", "haiku"}) {
		t.Errorf("models %q", ids)
	}
	if ids := list("Anthropic-Version", "2023-06-01"); !slices.Equal(ids, []string{"chat", "haiku"}) {
		t.Errorf("models of the Anthropic dialect %q", ids)
	}
	if ids := list("Authorization", "Bearer sk-narrow"); !slices.Equal(ids, []string{"chat"}) {
		t.Errorf("models of a narrow key %q", ids)
	}
	if a := g.whole(g.send(g.request("HEAD", "/v1/models", nil))); a.StatusCode != 200 || len(a.Bytes) != 0 {
		t.Errorf("HEAD: %d", a.StatusCode)
	}
}

// P3: the version is in the path; headers that name one have no effect but a
// warning.
func TestVersionHeaders(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	for _, name := range []string{"Api-Version", "X-Api-Version", "Accept-Version"} {
		a := g.post(chatPath, chatBody, name, "2")
		if rec := g.record(a.ID()); a.StatusCode != 200 || fmt.Sprint(rec["warnings"]) != "[version_header_ignored]" {
			t.Errorf("%s: %d, warnings %v", name, a.StatusCode, rec["warnings"])
		}
	}
	if a := g.post(chatPath, chatBody); g.record(a.ID())["warnings"] != nil {
		t.Error("a warning without reason")
	}
}

// P5: both modes of the request id.
func TestRequestID(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"generate", "require"} {
		g := start(t, setup{API: "request_id: " + mode})
		for _, c := range []struct {
			id   string
			sane bool
		}{
			{"abc-123", true},
			{strings.Repeat("x", 128), true},
			{"~!@#$%^&*()", true},
			{"-", false},
			{"", false},
			{strings.Repeat("x", 129), false},
			{"two words", false},
			{`a"b`, false},
			{"é", false},
		} {
			a := g.post(chatPath, chatBody, "X-Request-Id", c.id)
			if mode == "require" && !c.sane {
				if code, _ := envelope(t, a, llm.OpenAI); a.StatusCode != 400 || code != "MISSING_REQUEST_ID" {
					t.Errorf("%q: %d %s", c.id, a.StatusCode, a.Bytes)
				}
				continue
			}
			if a.StatusCode != 200 || (a.ID() == c.id) != c.sane || a.ID() == "" {
				t.Errorf("%s %q: %d, answered %q", mode, c.id, a.StatusCode, a.ID())
			}
			if up := g.upstream().Header.Get("X-Request-Id"); up != a.ID() {
				t.Errorf("%s %q: upstream got %q, the client %q", mode, c.id, up, a.ID())
			}
			if rec := g.record(a.ID()); rec["id"] != a.ID() {
				t.Errorf("record %v", rec["id"])
			}
			wait(t, "the log line of "+a.ID(), func() bool { return strings.Contains(g.Log.String(), `"request_id":"`+a.ID()+`"`) })
		}
	}
}

// P7: which content types a JSON route takes.
func TestContentTypes(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	formBody, formType := form(t, "model=chat", "file@x")
	for _, c := range []struct {
		path, ct, body string
		status         int
	}{
		{chatPath, "application/json", chatBody, 200},
		{chatPath, "application/json; charset=utf-8", chatBody, 200},
		{chatPath, "Application/JSON", chatBody, 200},
		{chatPath, "application/vnd.api+json", chatBody, 200},
		{chatPath, "-", chatBody, 200},
		{chatPath, "text/plain", chatBody, 415},
		{chatPath, "text/json", chatBody, 415},
		{chatPath, "application/x-www-form-urlencoded", "model=chat", 415},
		{chatPath, "application/octet-stream", chatBody, 415},
		{chatPath, "application/json, text/plain", chatBody, 415},
		{chatPath, formType, formBody, 415},
		{chatPath, "nonsense", chatBody, 415},
		{"/v1/audio/transcriptions", formType, formBody, 200},
		{"/v1/audio/transcriptions", "multipart/form-data", formBody, 400},
		{"/v1/audio/transcriptions", "multipart/mixed; boundary=x", formBody, 415},
		{"/v1/audio/transcriptions", "application/json", chatBody, 415},
		{"/v1/audio/transcriptions", "-", formBody, 415},
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=other", formBody, 400},
	} {
		a := g.post(c.path, c.body, "Content-Type", c.ct)
		if a.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d: %s", c.path, c.ct, a.StatusCode, c.status, a.Bytes)
		}
		if c.status >= 400 {
			envelope(t, a, llm.OpenAI)
		}
	}
}
