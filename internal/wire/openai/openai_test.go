package openai_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/openai"
)

var d openai.Dialect

func decode(t testing.TB, raw []byte) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return m
}

// P2: the documented example, to the letter.
func TestLengthExample(t *testing.T) {
	e := fault.New(fault.Malformed, "contract.Validate", "Input text exceeds maximum allowed length of %d characters.", 8192)
	e.Code = "INVALID_INPUT_LENGTH"
	e.Details = map[string]any{"field": "text", "limit": 8192, "actual": 12056}
	got := decode(t, d.Fault(nil, e, "req_1"))["error"].(map[string]any)
	want := decode(t, []byte(`{ "error": { "code": "INVALID_INPUT_LENGTH",
		"message": "Input text exceeds maximum allowed length of 8192 characters.",
		"details": { "field": "text", "limit": 8192, "actual": 12056 } } }`))["error"].(map[string]any)
	for name, v := range want {
		if !reflect.DeepEqual(got[name], v) {
			t.Errorf("%s is %v, want %v", name, got[name], v)
		}
	}
}

// Every kind makes a complete envelope, in an answer and in a stream.
func TestFaults(t *testing.T) {
	for _, k := range fault.Kinds() {
		e := &fault.Error{Kind: k, Public: "A \"quoted\" <b> 😀\n\x00 sentence.", Param: "x\"y", Details: map[string]any{"bad": func() {}}}
		check := func(m map[string]any) {
			t.Helper()
			if keys := slices.Sorted(maps.Keys(m)); !slices.Equal(keys, []string{"code", "details", "message", "param", "request_id", "type"}) {
				t.Errorf("%s: %v", k, keys)
			}
			if m["message"] != e.Public || m["type"] != k.OpenAIType() || m["code"] != k.Code() || m["param"] != e.Param || m["request_id"] != "r" {
				t.Errorf("%s: %v", k, m)
			}
			if _, ok := m["details"].(map[string]any); !ok {
				t.Errorf("%s: details %v", k, m["details"])
			}
		}
		check(decode(t, d.Fault(nil, e, "r"))["error"].(map[string]any))
		for _, op := range []llm.Operation{llm.Chat, llm.Responses} {
			event := string(d.FaultEvent(nil, op, e, "r"))
			_, data, _ := strings.Cut(event, "data: ")
			if !strings.HasSuffix(event, "\n\n") || strings.Count(event, "\n\n") != 1 || strings.HasPrefix(event, "event: error\n") != (op == llm.Responses) {
				t.Errorf("%q", event)
			}
			check(decode(t, []byte(data))["error"].(map[string]any))
		}
	}
}

func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		status        int
		body          string
		kind          fault.Kind
		passed        bool // the body goes on as it is
		message, code string
	}{
		{429, `{"error":{"message":"slow","type":"requests","param":null,"code":"rate_limit_exceeded"}}`, fault.UpstreamRateLimited, true, "slow", "rate_limit_exceeded"},
		{400, `{"error":{"message":"no","type":"invalid_request_error","code":null}}`, fault.UpstreamRejected, true, "no", ""},
		{500, `{"error":"words"}`, fault.UpstreamFailed, false, "words", ""},
		{400, `{"detail":"words"}`, fault.UpstreamRejected, false, "words", ""},
		{400, `{"message":"words","detail":"more"}`, fault.UpstreamRejected, false, "words", ""},
		{401, ``, fault.UpstreamDenied, false, "", ""},
		{402, `<html>`, fault.UpstreamDenied, false, "", ""},
		{403, `{"error":{"message":"x"}} trailing`, fault.UpstreamDenied, false, "", ""},
		{408, `null`, fault.UpstreamTimeout, false, "", ""},
		{503, `[{"error":{"message":"x"}}]`, fault.UpstreamFailed, false, "", ""},
		{304, `{}`, fault.UpstreamMalformed, false, "", ""},
	} {
		f := d.Refusal(c.status, http.Header{"Retry-After": {"2"}}, []byte(c.body))
		if f.Kind != c.kind || (f.Body != nil) != c.passed || f.Public != c.message || f.Code != c.code || f.RetryAfter != 2*time.Second {
			t.Errorf("%d %s: %+v", c.status, c.body, f)
		}
		if f.Body != nil && string(f.Body) != c.body {
			t.Errorf("%d: body %s", c.status, f.Body)
		}
	}
	if f := d.Refusal(400, nil, []byte(`{"detail":"`+strings.Repeat("é", 5000)+`"}`)); len(f.Public) > 2010 || !strings.HasSuffix(f.Public, "…") {
		t.Errorf("%d bytes of message", len(f.Public))
	}
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		op     llm.Operation
		body   string
		usage  llm.Usage
		finish string
		fault  string
	}{
		{llm.Chat, `{"choices":[{"finish_reason":"stop"},{"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}}`, llm.Usage{Input: 3, Output: 4, Cached: 2, Reasoning: 1}, "stop", ""},
		{llm.Responses, `{"status":"completed","error":null,"usage":{"input_tokens":3,"output_tokens":4}}`, llm.Usage{Input: 3, Output: 4}, "completed", ""},
		{llm.Chat, `{"choices":[],"usage":null}`, llm.Usage{}, "", ""},
		{llm.Chat, `{"usage":{"prompt_tokens":-3,"completion_tokens":"4"}}`, llm.Usage{}, "", ""},
		{llm.Chat, ``, llm.Usage{}, "", "upstream_malformed"},
		{llm.Chat, " \n", llm.Usage{}, "", "upstream_malformed"},
		{llm.Chat, `{"choices":[`, llm.Usage{}, "", "upstream_malformed"},
		{llm.Chat, `{"error":{"message":"x"}}`, llm.Usage{}, "", "upstream_failed"},
		{llm.Chat, `{"error":{"message":"x","type":"rate_limit_error"}}`, llm.Usage{}, "", "upstream_rate_limited"},
		{llm.Chat, `{"error":"x"}`, llm.Usage{}, "", "upstream_failed"},
		{llm.Chat, `{"choices":[{"finish_reason":"stop"}],"error":{}}`, llm.Usage{}, "stop", ""},
	} {
		a := d.Answer(c.op, []byte(c.body))
		kind := ""
		if a.Fault != nil {
			kind = a.Fault.Kind.String()
		}
		if a.Usage != c.usage || a.FinishReason != c.finish || kind != c.fault {
			t.Errorf("%s: %+v, fault %s", c.body, a, kind)
		}
	}
	tail := `tent":"\"usage\":{"}],"usage": {"prompt_tokens":3,"completion_tokens":4},"x":1}`
	if u, ok := d.UsageTail(llm.Chat, []byte(tail)); !ok || u.Input != 3 || u.Output != 4 {
		t.Errorf("%+v %v", u, ok)
	}
}

// FuzzEdits holds an edited body against encoding/json: it is valid, says what
// the edits were to make it say, and differs in nothing else.
func FuzzEdits(f *testing.F) {
	for _, s := range []string{
		`{"model":"m"}`, `{"model":"m","stream":false,"stream_options":null}`, ` { "model" : "m" , "stream_options" : { } , "x" : 1 } `,
		`{"model":"m","stream_options":{"include_usage":false,"y":[1]}}`, `{"stream":null,"mod\u0065l":"\u0041"}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"m","stream_options":{"include_us\u0061ge":1}}`, `{"a":{"model":"m"},"model":"m"}`,
	} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, stream bool) {
		env, err := d.Peek(llm.Chat, raw)
		if err != nil {
			return
		}
		call := &llm.Call{Op: llm.Chat, Raw: raw, Envelope: env, WantsStream: stream || env.Stream}
		if same := d.Edits(nil, call, env.Model); !call.WantsStream && len(same) > 0 {
			t.Fatalf("%v for a body that needs none: %s", same, raw)
		}
		edits := d.Edits(nil, call, `the "other" model`)
		out := wire.Apply(nil, raw, edits)
		if len(out) != len(raw)+wire.Grown(edits) {
			t.Fatalf("%d bytes, announced %d", len(out), len(raw)+wire.Grown(edits))
		}
		was, is := decode(t, raw), decode(t, out)
		if is["model"] != `the "other" model` {
			t.Fatalf("model %v in %s", is["model"], out)
		}
		again, err := d.Peek(llm.Chat, out)
		if err != nil || again.Stream != call.WantsStream || call.WantsStream && !again.IncludeUsage {
			t.Fatalf("%v: %+v from %s", err, again, out)
		}
		if call.WantsStream {
			options := func(m map[string]any) map[string]any {
				o, _ := m["stream_options"].(map[string]any)
				o = maps.Clone(o)
				delete(o, "include_usage")
				return o
			}
			if a, b := options(was), options(is); len(a) != len(b) || len(a) > 0 && !reflect.DeepEqual(a, b) {
				t.Fatalf("stream_options %v became %v", a, b)
			}
			for _, m := range []map[string]any{was, is} {
				delete(m, "stream")
				delete(m, "stream_options")
			}
		}
		delete(was, "model")
		delete(is, "model")
		if !reflect.DeepEqual(was, is) {
			t.Fatalf("%s became %s", raw, out)
		}
		// A streamed body is edited the same.
		piped := &strings.Builder{}
		buf := make([]byte, 3)
		for r := wire.ApplyStream(strings.NewReader(string(raw)), edits); ; {
			n, err := r.Read(buf)
			piped.Write(buf[:n])
			if err != nil {
				break
			}
		}
		if piped.String() != string(out) {
			t.Fatalf("as a stream %q, whole %q", piped, out)
		}
	})
}

// FuzzTap feeds a tap whatever may come: it must take it, call it malformed
// where it is not JSON, and count nothing below zero.
func FuzzTap(f *testing.F) {
	for _, s := range []string{
		"[DONE]", `{}`, `{"choices":[{"delta":{"content":"hi"}}]}`, `{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]},"finish_reason":"stop"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, `{"error":{"message":"x"}}`, `{"type":"response.completed","response":{"usage":{"input_tokens":1}}}`,
		`{"type":"response.output_text.delta","delta":"x"}`, `{"type":"error","message":"x"}`, `{"choices":[1,null,{"delta":7}],"usage":{"completion_tokens":-1}}`, `{"choices":`, `{"type":"response.completed","response":3}`,
	} {
		f.Add([]byte(s), []byte(`{"choices":[{"text":"x"}]}`))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for _, op := range []llm.Operation{llm.Chat, llm.Completion, llm.Responses, llm.Images} {
			tap := d.Tap(op)
			for _, data := range [][]byte{first, second} {
				s := tap.Event(nil, data)
				var m map[string]json.RawMessage
				if json.Unmarshal(data, &m) != nil && s.Has(wire.Content) && op != llm.Images {
					t.Fatalf("%s: content in %q", op, data)
				}
				if s.Has(wire.Failed) != (tap.Fault() != nil) && s.Has(wire.Failed) {
					t.Fatalf("%s: failed without a fault: %q", op, data)
				}
			}
			if u := tap.Usage(); u.Input < 0 || u.Output < 0 || u.Cached < 0 || u.Reasoning < 0 {
				t.Fatalf("%s: %+v", op, u)
			}
		}
	})
}
