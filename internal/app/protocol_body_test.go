package app_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/lab/fake"
)

// What two parsers could read in two ways is refused, in every dialect.
func TestAmbiguousBodies(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	for _, c := range []struct {
		body   string
		status int
		says   string
	}{
		{`{"model":"chat","model":"chat"}`, 400, "twice"},
		{`{"model":"chat","mod\u0065l":"haiku"}`, 400, "twice"},
		{`{"model":"chat","temperature":1,"temperature":2}`, 400, "twice"},
		{`{"model":"chat","stream":false,"str\u0065am":true}`, 400, "twice"},
		{"{\"model\":\"chat\",\"user\":\"\xff\"}", 400, "UTF-8"},
		{"{\"model\":\"chat\",\"us\xc0\xafer\":1}", 400, "UTF-8"},
		{"{\"model\":\"chat\",\"user\":\"\xed\xa0\x80\"}", 400, "UTF-8"},
		{"\xef\xbb\xbf" + `{"model":"chat"}`, 400, ""},
		{`{"model":"chat"} {"model":"haiku"}`, 400, ""},
		{`{"model":"chat"}x`, 400, ""},
		{`{"model":"chat"}` + "\x00", 400, ""},
		{`[{"model":"chat"}]`, 400, ""},
		{`"model"`, 400, ""},
		{`null`, 400, ""},
		{``, 400, ""},
		{`   `, 400, ""},
		{`{"model":"chat",}`, 400, ""},
		{`{"model":"chat","a":01}`, 400, ""},
		{`{"model":"chat","a":NaN}`, 400, ""},
		{`{'model':'chat'}`, 400, ""},
		{"{\"model\":\"chat\",\"a\":\"\n\"}", 400, ""},
		{`{"model":"chat","a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, 400, ""},
		{`{"model":7}`, 400, "string"},
		{`{"model":null}`, 400, "string"},
		{`{"model":["chat"]}`, 400, "string"},
		{`{"model":""}`, 400, "empty"},
		{`{"Model":"chat"}`, 400, "missing"},
		{`{}`, 400, "missing"},
		{`{"model":"chat","stream":"true"}`, 400, "stream"},
		{`{"model":"chat","stream":1}`, 400, "stream"},
		{`{"model":"chat","max_tokens":-1}`, 400, "max_tokens"},
		{`{"model":"chat","max_tokens":1.5}`, 400, "max_tokens"},
		{`{"model":"chat","max_tokens":"9"}`, 400, "max_tokens"},
	} {
		for path, d := range map[string]llm.Dialect{chatPath: llm.OpenAI, msgPath: llm.Anthropic} {
			a := g.post(path, c.body)
			_, message := envelope(t, a, d)
			if a.StatusCode != c.status || !strings.Contains(message, c.says) {
				t.Errorf("%.80q: %d %s", c.body, a.StatusCode, message)
			}
		}
	}
	if n := g.Fake.Stats().Requests; n != 0 {
		t.Errorf("%d of them reached the provider", n)
	}
}

// What the client wrote reaches the provider byte for byte, the model's name
// apart where the provider has another for it.
func TestBodiesAreLeftAlone(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	rest := "  \"zz\" : 9007199254740993 ,\r\n\t\"big\":123456789012345678901234567890.50e+00,\"neg\":-0.0," +
		`"html":"<b>&amp;</b>","emoji":"😀 \ud83d\ude00 \u00e9 é","sep":"` + "\u2028" + `","esc":"\/\b\f\n\r\t\"\\","Model":"not me","b":1,"a":{"model":"nor me","model":"nor me"},` +
		`"messages":[{"role":"user","content":"hi \u0000"}], "unknown" : [ 1 , 2 ], "":"" ` + "\n"
	for _, c := range []struct{ path, sent, want string }{
		{chatPath, `"model":"sim-large",` + rest, ``},
		{chatPath, rest + `,"model" : "sim-large"`, ``},
		{chatPath, `"mod\u0065l":"s\u0069m-large",` + rest, ``},
		{chatPath, `"model":"chat",` + rest, `"model":"sim-small",` + rest},
		{chatPath, rest + ` , "mod\u0065l" : "ch\u0061t" `, rest + ` , "mod\u0065l" : "sim-small" `},
		{msgPath, `"max_tokens":9,"model":"claude-x",` + rest, ``},
		{msgPath, `"max_tokens":9,"model":"haiku",` + rest, `"max_tokens":9,"model":"sim-small",` + rest},
	} {
		if c.want == "" {
			c.want = c.sent
		}
		sent, want := " {"+c.sent+"}\n", " {"+c.want+"}\n"
		a := g.post(c.path, sent)
		if a.StatusCode != 200 {
			t.Errorf("%d %s", a.StatusCode, a.Bytes)
			continue
		}
		up := g.upstream()
		if string(up.Body) != want {
			t.Errorf("sent  %q\nwant  %q\nfound %q", sent, want, up.Body)
		}
		if up.Header.Get("Content-Length") != fmt.Sprint(len(want)) && up.Header.Get("Content-Length") != "" {
			t.Errorf("content length %s", up.Header.Get("Content-Length"))
		}
	}
}

// What comes back is passed on byte for byte, too.
func TestAnswersAreLeftAlone(t *testing.T) {
	t.Parallel()
	body := "\n {\"id\" : 9007199254740993,\"choices\":[ {\"finish_reason\":\"stop\",\"x\":\"<&>\u2028\\u00e9\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4},\"zz\":1e400}\r\n"
	g := start(t, setup{Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(201)
		_, _ = io.WriteString(w, body)
	})})
	a := g.post(chatPath, chatBody)
	if a.StatusCode != 201 || string(a.Bytes) != body || a.Header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("%d %q", a.StatusCode, a.Bytes)
	}
	rec := g.record(a.ID())
	if within(rec, "usage", "output_tokens") != 4.0 || rec["finish_reason"] != "stop" {
		t.Errorf("record %v", rec)
	}
}

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	g := start(t, setup{API: "max_body: 64KiB"})
	fit := func(n int) string {
		const head, tail = `{"model":"chat","messages":[{"role":"user","content":"`, `"}]}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	if a := g.post(chatPath, fit(64<<10)); a.StatusCode != 200 {
		t.Errorf("at the limit: %d %s", a.StatusCode, a.Bytes)
	}
	check := func(what string, a answer) {
		t.Helper()
		code, _ := envelope(t, a, llm.OpenAI)
		if a.StatusCode != 413 || code != "REQUEST_TOO_LARGE" || within(a.JSON(t), "error", "details", "limit") != float64(64<<10) {
			t.Errorf("%s: %d %s", what, a.StatusCode, a.Bytes)
		}
	}
	check("content length", g.post(chatPath, fit(64<<10+1)))
	check("chunked", g.whole(g.send(g.request("POST", chatPath, io.MultiReader(strings.NewReader(fit(64<<10+1)))))))
	upload, ct := form(t, "model=chat", "file@"+strings.Repeat("x", 64<<10))
	check("form", g.post("/v1/audio/transcriptions", upload, "Content-Type", ct))
	check("chunked form", g.whole(g.send(g.request("POST", "/v1/audio/transcriptions", io.MultiReader(strings.NewReader(upload)), "Content-Type", ct))))
	zipped := gzipped(strings.Repeat("\n", 8<<20))
	if len(zipped) > 64<<10 {
		t.Fatalf("the bomb has %d bytes", len(zipped))
	}
	check("gzip bomb", g.post(chatPath, zipped, "Content-Encoding", "gzip"))
	if a := g.post("/v1/messages", fit(65<<10)); a.StatusCode != 413 {
		t.Errorf("Anthropic: %d", a.StatusCode)
	} else if kind, _ := envelope(t, a, llm.Anthropic); kind != "request_too_large" {
		t.Errorf("type %q", kind)
	}
	if a := g.get("/v1/models", "X-Long", strings.Repeat("x", 80<<10)); a.StatusCode != 431 {
		t.Errorf("long header: %d", a.StatusCode)
	}
	if a := g.get("/v1/models", "X-Long", strings.Repeat("x", 50<<10)); a.StatusCode != 200 {
		t.Errorf("header within the limit: %d", a.StatusCode)
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

// A8: what a request's own Content-Encoding may be.
func TestRequestEncodings(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	for _, c := range []struct {
		encoding, body string
		status         int
	}{
		{"identity", chatBody, 200},
		{"Identity", chatBody, 200},
		{"gzip", gzipped(chatBody), 200},
		{"x-gzip", gzipped(chatBody), 200},
		{"gzip", chatBody, 400},
		{"gzip", gzipped(chatBody)[:30], 400},
		{"br", chatBody, 415},
		{"zstd", chatBody, 415},
		{"gzip, gzip", gzipped(gzipped(chatBody)), 415},
	} {
		a := g.post(chatPath, c.body, "Content-Encoding", c.encoding)
		if a.StatusCode != c.status {
			t.Errorf("%s: %d, want %d: %s", c.encoding, a.StatusCode, c.status, a.Bytes)
			continue
		}
		if c.status != 200 {
			envelope(t, a, llm.OpenAI)
			continue
		}
		up := g.upstream()
		if want := strings.Replace(chatBody, "chat", "sim-small", 1); string(up.Body) != want || up.Header.Get("Content-Encoding") != "" || a.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: the provider got %q, %q", c.encoding, up.Header.Get("Content-Encoding"), up.Body)
		}
	}
	upload, ct := form(t, "model=chat", "file@x")
	if a := g.post("/v1/audio/transcriptions", gzipped(upload), "Content-Type", ct, "Content-Encoding", "gzip"); a.StatusCode != 415 {
		t.Errorf("gzip upload: %d", a.StatusCode)
	}
}

// raw speaks to the gateway byte by byte.
func raw(t *testing.T, g *Gateway) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", g.API())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(15 * time.Second))
	return c, bufio.NewReader(c)
}

// TestFieldsOnce: an answer's fields are there once, those that frame it above all.
// Go's client takes two lengths that agree; others close the connection.
func TestFieldsOnce(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	for name, body := range map[string]string{
		"whole": chatBody, "stream": strings.Replace(chatBody, "{", `{"stream":true,`, 1), "refused": `{"model":"none","messages":[]}`,
	} {
		c, r := raw(t, g)
		_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", g.Key, len(body), body)
		answer, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(name, err)
		}
		head, _, _ := strings.Cut(string(answer), "\r\n\r\n")
		seen := map[string]bool{}
		for _, line := range strings.Split(head, "\r\n")[1:] {
			field, _, _ := strings.Cut(strings.ToLower(line), ":")
			if seen[field] && field != "vary" {
				t.Errorf("%s: %s twice in\n%s", name, field, head)
			}
			seen[field] = true
		}
		if !seen["content-type"] || !seen["content-length"] && !seen["transfer-encoding"] {
			t.Errorf("%s: nothing frames it:\n%s", name, head)
		}
	}
}

func TestSlowClients(t *testing.T) {
	t.Parallel()
	g := start(t, setup{API: "header_timeout: 300ms\nbody_timeout: 300ms"})
	t.Run("header", func(t *testing.T) {
		t.Parallel()
		c, r := raw(t, g)
		began := time.Now()
		_, _ = io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		go func() {
			for range 100 {
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		if b, _ := io.ReadAll(r); time.Since(began) > 5*time.Second || bytes.Contains(b, []byte(" 200 ")) {
			t.Errorf("after %v: %q", time.Since(began), b)
		}
	})
	for _, kind := range []string{"application/json", "multipart/form-data; boundary=b"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			path := chatPath
			if strings.HasPrefix(kind, "multipart") {
				path = "/v1/audio/transcriptions"
			}
			c, r := raw(t, g)
			began := time.Now()
			_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n{", path, key, kind)
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(res.Body)
			if res.StatusCode != 408 || !bytes.Contains(b, []byte(`"REQUEST_TIMEOUT"`)) || time.Since(began) > 5*time.Second {
				t.Errorf("after %v: %d %s", time.Since(began), res.StatusCode, b)
			}
			if _, err := r.ReadByte(); err == nil {
				t.Error("the connection stays open")
			}
		})
	}
	// A client that gives up in the middle of its body costs nothing.
	c, _ := raw(t, g)
	_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: gone\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{", chatPath, key)
	_ = c.Close()
	if rec := g.record("gone"); rec["outcome"] != "cancelled" || rec["status"] != 499.0 {
		t.Errorf("%v", rec)
	}
}

// A body that does not fit its Content-Length never becomes another request.
func TestLyingLength(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	head := "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\n"
	for what, text := range map[string]string{
		"both framings":        head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
		"two lengths":          head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n123456",
		"a negative length":    head + "Content-Length: -5\r\n\r\n",
		"an unknown transfer":  head + "Transfer-Encoding: gzip\r\n\r\n",
		"a bad chunk":          head + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
		"a length with a plus": head + "Content-Length: +5\r\n\r\n12345",
	} {
		c, r := raw(t, g)
		_, _ = io.WriteString(c, text)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			continue // closed without a word
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = c.Close()
		if res.StatusCode < 400 {
			t.Errorf("%s: %d", what, res.StatusCode)
		}
	}
	if n := g.Fake.Stats().Requests; n != 0 {
		t.Errorf("%d requests have reached the provider", n)
	}
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	g := start(t, setup{API: "max_body: 64KiB"})
	ask := func(length int, credential string) (*http.Response, bool) {
		c, r := raw(t, g)
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", chatPath, credential, length)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 100 {
			return res, false
		}
		_, _ = io.WriteString(c, chatBody)
		if res, err = http.ReadResponse(r, nil); err != nil {
			t.Fatal(err)
		}
		return res, true
	}
	if res, asked := ask(len(chatBody), key); !asked || res.StatusCode != 200 {
		t.Errorf("asked for the body %v, then %d", asked, res.StatusCode)
	}
	if res, asked := ask(1<<20, key); asked || res.StatusCode != 413 {
		t.Errorf("too large: asked for the body %v, then %d", asked, res.StatusCode)
	}
	if res, asked := ask(len(chatBody), "sk-wrong"); asked || res.StatusCode != 401 {
		t.Errorf("unknown key: asked for the body %v, then %d", asked, res.StatusCode)
	}
}

// uploads answers transcriptions and says what arrived.
type uploads struct {
	seen   atomic.Pointer[upload]
	cut    atomic.Int64
	called atomic.Int64
}

type upload struct {
	length int64
	body   []byte
}

func (u *uploads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.called.Add(1)
	b, err := io.ReadAll(r.Body)
	if err != nil {
		u.cut.Add(1)
		panic(http.ErrAbortHandler)
	}
	u.seen.Store(&upload{r.ContentLength, b})
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"text":"ok"}`)
}

func TestForms(t *testing.T) {
	t.Parallel()
	up := &uploads{}
	g := start(t, setup{Upstream: up})
	large := strings.Repeat("0123456789abcdef\r\n--", 5<<20/20)
	file := large[:1200<<10] // more than is held in memory
	const path = "/v1/audio/transcriptions"
	for _, c := range []struct {
		name    string
		parts   []string
		chunked bool
		model   string // at the provider; "" means refused
	}{
		{"small", []string{"model=gpt-x", "file@abc"}, false, "gpt-x"},
		{"small alias", []string{"model=chat", "file@abc"}, false, "sim-small"},
		{"model first", []string{"model=gpt-x", "file@" + file}, false, "gpt-x"},
		{"model first, alias", []string{"model=chat", "file@" + large, "prompt=x"}, false, "sim-small"},
		{"model last", []string{"prompt=x", "file@" + file, "model=gpt-x"}, false, "gpt-x"},
		{"model last, alias", []string{"file@" + large, "model=chat", "x=y"}, false, "sim-small"},
		{"model first, chunked", []string{"model=chat", "file@" + file}, true, "sim-small"},
		{"model last, chunked", []string{"file@" + file, "model=chat"}, true, "sim-small"},
		{"two models", []string{"model=gpt-x", "model=chat", "file@abc"}, false, ""},
		{"second model behind a file", []string{"model=gpt-x", "file@" + file, "model=chat"}, false, ""},
		{"second model behind a file, chunked", []string{"model=gpt-x", "file@" + file, "model=chat"}, true, ""},
		{"two models behind a file", []string{"file@" + file, "model=gpt-x", "model=chat"}, false, ""},
		{"no model", []string{"file@" + file}, false, ""},
		{"empty model", []string{"model=", "file@abc"}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			up.seen.Store(nil)
			body, ct := form(t, c.parts...)
			var reader io.Reader = strings.NewReader(body)
			if c.chunked {
				reader = io.MultiReader(reader)
			}
			a := g.whole(g.send(g.request("POST", path, reader, "Content-Type", ct)))
			got := up.seen.Load()
			if c.model == "" {
				if a.StatusCode != 400 || got != nil {
					t.Errorf("%d %s; the provider got a whole upload: %v", a.StatusCode, a.Bytes, got != nil)
				}
				envelope(t, a, llm.OpenAI)
				return
			}
			if a.StatusCode != 200 || got == nil {
				t.Fatalf("%d %s", a.StatusCode, a.Bytes)
			}
			want := strings.Replace(body, "\r\n\r\nchat\r\n", "\r\n\r\n"+c.model+"\r\n", 1)
			if string(got.body) != want {
				t.Errorf("the provider got %d bytes, want %d; first difference at %d", len(got.body), len(want), differ(got.body, []byte(want)))
			}
			if !c.chunked && got.length != int64(len(want)) {
				t.Errorf("Content-Length %d for %d bytes", got.length, len(want))
			}
			if rec := g.record(a.ID()); rec["provider"] != "openai" || rec["asked"] == "" {
				t.Errorf("%v", rec)
			}
		})
	}
}

func differ(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// The provider's answer that comes before the whole upload reaches the client.
func TestEarlyRefusalOfAnUpload(t *testing.T) {
	t.Parallel()
	g := start(t, setup{Fake: func(c *fake.Config) { c.MaxBody = 1 << 20 }})
	body, ct := form(t, "model=chat", "file@"+strings.Repeat("x", 3<<20))
	a := g.whole(g.send(g.request("POST", "/v1/audio/transcriptions", strings.NewReader(body), "Content-Type", ct)))
	if a.StatusCode != 413 {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
}
