package fake

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"mime/multipart"
	"slices"
	"strings"
	"testing"
)

func TestStreamSaysWhatOnePieceSays(t *testing.T) {
	_, url := start(t, func(c *Config) { c.Tokens = Count(7) })
	for path, flow := range flows {
		r := send(t, url+path, flow)
		if r.err != nil || r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
			t.Fatalf("%s: %v %s", path, r.err, r.body)
		}
		events := parse(r.body)
		text, tokens := content(events)
		if tokens != 7 || text == "" {
			t.Errorf("%s: %d tokens, %q", path, tokens, text)
		}
		for _, e := range events {
			if e.data != "[DONE]" && e.m == nil {
				t.Errorf("%s: %q is not JSON", path, e.data)
			}
			if e.name != "" && e.name != at(e.m, "type") {
				t.Errorf("%s: event %s has type %v", path, e.name, at(e.m, "type"))
			}
		}
	}
}

func TestChatStreamShape(t *testing.T) {
	_, url := start(t, func(c *Config) { c.Tokens = Count(3); c.Usage.CachedShare = 1; c.Usage.Reasoning = Count(5) })
	events := parse(send(t, url+chatPath, chatFlow).body)
	if len(events) != 7 { // role, 3 tokens, finish, usage, [DONE]
		t.Fatalf("%d events: %v", len(events), events)
	}
	if at(events[0].m, "choices", 0, "delta", "role") != "assistant" || at(events[4].m, "choices", 0, "finish_reason") != "stop" {
		t.Error(events[0], events[4])
	}
	for _, e := range events[:5] {
		if u, ok := e.m["usage"]; !ok || u != nil {
			t.Errorf("usage is %v, %v", u, ok)
		}
	}
	last := events[5].m
	if l, _ := last["choices"].([]any); l == nil || len(l) != 0 {
		t.Error("choices of the usage chunk:", last["choices"])
	}
	if at(last, "usage", "completion_tokens") != 8.0 || at(last, "usage", "completion_tokens_details", "reasoning_tokens") != 5.0 ||
		at(last, "usage", "prompt_tokens_details", "cached_tokens") != at(last, "usage", "prompt_tokens") {
		t.Error(last)
	}
	if events[6].data != "[DONE]" {
		t.Error(events[6])
	}
	plain := send(t, url+chatPath, strings.Replace(chatFlow, `"stream_options":{"include_usage":true},`, "", 1))
	if bytes.Contains(plain.body, []byte("usage")) {
		t.Errorf("usage unasked: %s", plain.body)
	}
}

func names(events []event) (out []string) {
	for _, e := range events {
		out = append(out, e.name)
	}
	return slices.Compact(out)
}

func TestMessageStreamShape(t *testing.T) {
	_, url := start(t, nil)
	events := parse(send(t, url+msgPath, msgFlow).body)
	want := []string{"message_start", "content_block_start", "ping", "content_block_delta", "content_block_stop", "message_delta", "message_stop"}
	if got := names(events); !slices.Equal(got, want) {
		t.Error(got)
	}
	if at(events[len(events)-2].m, "usage", "output_tokens") != 16.0 || at(events[0].m, "message", "usage", "output_tokens") != 1.0 {
		t.Error(events)
	}
	thought := parse(send(t, url+"/anthropic"+msgPath, strings.Replace(msgFlow, "{", `{"thinking":{"type":"enabled","budget_tokens":1024},`, 1)).body)
	var deltas []string
	for _, e := range thought {
		if d, _ := at(e.m, "delta", "type").(string); d != "" {
			deltas = append(deltas, d)
		}
	}
	if got := slices.Compact(deltas); !slices.Equal(got, []string{"thinking_delta", "signature_delta", "text_delta"}) {
		t.Error(got)
	}
}

func TestResponseStreamShape(t *testing.T) {
	_, url := start(t, nil)
	events := parse(send(t, url+respPath, respFlow).body)
	want := []string{"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
		"response.output_text.delta", "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"}
	if got := names(events); !slices.Equal(got, want) {
		t.Error(got)
	}
	for i, e := range events {
		if at(e.m, "sequence_number") != float64(i) {
			t.Errorf("event %d has number %v", i, at(e.m, "sequence_number"))
		}
	}
	text, _ := content(events)
	last := events[len(events)-1].m
	if at(last, "response", "output", 0, "content", 0, "text") != text || at(last, "response", "usage", "output_tokens") != 16.0 {
		t.Error(last)
	}
	whole := send(t, url+respPath, `{"model":"m","input":"hi","max_output_tokens":4}`).json(t)
	if at(whole, "status") != "incomplete" || at(whole, "incomplete_details", "reason") != "max_output_tokens" {
		t.Error(whole)
	}
}

const schema = `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["c","f"]}}}`

func TestToolCalls(t *testing.T) {
	_, url := start(t, nil)
	chat := `{"model":"m","messages":[1],"tools":[{"type":"function","function":{"name":"f","parameters":` + schema + `}},{"type":"function","function":{"name":"g"}}],"tool_choice":`
	whole := send(t, url+chatPath, chat+`{"type":"function","function":{"name":"f"}}}`).json(t)
	args, _ := at(whole, "choices", 0, "message", "tool_calls", 0, "function", "arguments").(string)
	var v struct {
		City, Unit string
		Days       int
	}
	if json.Unmarshal([]byte(args), &v) != nil || v.City == "" || v.Unit == "" || at(whole, "choices", 0, "finish_reason") != "tool_calls" {
		t.Error(whole)
	}
	streamed := ""
	for _, e := range parse(send(t, url+chatPath, strings.Replace(chat, "{", `{"stream":true,`, 1)+`"required"}`, "x-sim-tool-calls", "2").body) {
		if at(e.m, "choices", 0, "delta", "tool_calls", 0, "index") == 0.0 {
			s, _ := at(e.m, "choices", 0, "delta", "tool_calls", 0, "function", "arguments").(string)
			streamed += s
		}
	}
	if !json.Valid([]byte(streamed)) {
		t.Error(streamed)
	}
	if r := send(t, url+chatPath, chat+`"auto"}`).json(t); at(r, "choices", 0, "finish_reason") != "stop" {
		t.Error(r)
	}
	if r := send(t, url+chatPath, chat+`{"type":"function","function":{"name":"h"}}}`); r.StatusCode != 400 {
		t.Error(r.StatusCode)
	}
	msg := strings.Replace(msgFlow, "{", `{"tools":[{"name":"f","input_schema":`+schema+`}],"tool_choice":{"type":"any"},`, 1)
	streamed = ""
	for _, e := range parse(send(t, url+msgPath, msg).body) {
		s, _ := at(e.m, "delta", "partial_json").(string)
		streamed += s
	}
	if !json.Valid([]byte(streamed)) || !strings.Contains(streamed, "city") {
		t.Error(streamed)
	}
	resp := send(t, url+respPath, `{"model":"m","input":"x","tool_choice":"required","tools":[{"type":"function","name":"f","parameters":`+schema+`}]}`).json(t)
	if at(resp, "output", 0, "type") != "function_call" || at(resp, "output", 0, "name") != "f" {
		t.Error(resp)
	}
}

func TestLimitsChoicesAndFormat(t *testing.T) {
	_, url := start(t, nil)
	r := send(t, url+chatPath, strings.Replace(chatAsk, "{", `{"max_completion_tokens":4,"n":3,`, 1)).json(t)
	l, _ := r["choices"].([]any)
	if len(l) != 3 || at(l[2], "finish_reason") != "length" || at(r, "usage", "completion_tokens") != 12.0 || at(l[0], "message", "content") == at(l[1], "message", "content") {
		t.Error(r)
	}
	if m := send(t, url+msgPath, strings.Replace(msgAsk, "100", "4", 1)).json(t); at(m, "stop_reason") != "max_tokens" || at(m, "usage", "output_tokens") != 4.0 {
		t.Error(m)
	}
	f := send(t, url+chatPath, strings.Replace(chatAsk, "{", `{"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":`+schema+`}},`, 1)).json(t)
	if s, _ := at(f, "choices", 0, "message", "content").(string); !json.Valid([]byte(s)) || !strings.Contains(s, "city") {
		t.Error(f)
	}
}

func TestEmbeddings(t *testing.T) {
	_, url := start(t, nil)
	floats := send(t, url+embedPath, `{"model":"e","input":["the water is cold","the water is cool","totally other words"],"dimensions":64}`).json(t)
	coded := send(t, url+embedPath, `{"model":"e","input":"the water is cold","dimensions":64,"encoding_format":"base64"}`).json(t)
	b64, _ := at(coded, "data", 0, "embedding").(string)
	raw, err := base64.StdEncoding.DecodeString(b64)
	if err != nil || len(raw) != 256 {
		t.Fatal(err, len(raw))
	}
	dot := func(a, b int) (sum float64) {
		for i := range 64 {
			sum += at(floats, "data", a, "embedding", i).(float64) * at(floats, "data", b, "embedding", i).(float64)
		}
		return sum
	}
	first := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	if math.Abs(first-at(floats, "data", 0, "embedding", 0).(float64)) > 1e-6 {
		t.Error("the two encodings differ")
	}
	if math.Abs(dot(0, 0)-1) > 1e-4 || dot(0, 1) < dot(0, 2)+0.2 {
		t.Error(dot(0, 0), dot(0, 1), dot(0, 2))
	}
}

func TestMediaAndModels(t *testing.T) {
	_, url := start(t, nil)
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	form.WriteField("model", "sim-audio+tokens=3")
	form.WriteField("prompt", "x")
	part, _ := form.CreateFormFile("file", "a.wav")
	part.Write([]byte("RIFF"))
	form.Close()
	for _, path := range []string{"/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits"} {
		r := send(t, url+path, b.String(), "Content-Type", form.FormDataContentType())
		if r.StatusCode != 200 {
			t.Errorf("%s: %s", path, r.body)
		}
		if text, _ := at(r.json(t), "text").(string); path != "/v1/images/edits" && len(strings.Fields(text)) != 3 {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	if r := send(t, url+"/v1/audio/speech", `{"model":"a","input":"x","voice":"v"}`); r.Header.Get("Content-Type") != "audio/mpeg" || len(r.body) != 16<<10 {
		t.Error(r.Header, len(r.body))
	}
	if r := send(t, url+"/v1/images/generations", `{"prompt":"x","n":2}`).json(t); at(r, "data", 1, "b64_json") == nil {
		t.Error(r)
	}
	if r := send(t, url+"/v1/models", "").json(t); at(r, "object") != "list" || at(r, "data", 0, "object") != "model" {
		t.Error(r)
	}
	if r := send(t, url+"/v1/models", "", "anthropic-version", "2023-06-01").json(t); at(r, "data", 0, "type") != "model" || at(r, "has_more") != false {
		t.Error(r)
	}
	if r := send(t, url+"/v1/models/sim-small", "").json(t); at(r, "id") != "sim-small" {
		t.Error(r)
	}
	if r := send(t, url+"/v1/models/a/b", ""); r.StatusCode != 404 {
		t.Error(r.StatusCode)
	}
	if r := send(t, url+"/anthropic/v1/messages/count_tokens", msgAsk).json(t); at(r, "input_tokens") == 0.0 {
		t.Error(r)
	}
}

func TestRefusals(t *testing.T) {
	_, url := start(t, func(c *Config) { c.Keys = []string{"right"}; c.Strict = true; c.MaxBody = 1000 })
	good := []string{"Authorization", "Bearer right"}
	for _, c := range []struct {
		path, body, code string
		status           int
		headers          []string
	}{
		{chatPath, chatAsk, "invalid_api_key", 401, []string{"Authorization", "Bearer wrong"}},
		{msgPath, msgAsk, "authentication_error", 401, nil},
		{msgPath, msgAsk, "", 200, []string{"X-Api-Key", "right"}},
		{chatPath, `{`, "invalid_request_error", 400, good},
		{chatPath, `{"model":"sim-small"}`, "missing_required_parameter", 400, good},
		{chatPath, `{"Model":"sim-small","messages":[1]}`, "missing_required_parameter", 400, good},
		{chatPath, `{"model":"sim-small","messages":"x"}`, "invalid_type", 400, good},
		{chatPath, `{"model":"sim-small","messages":[1],"max_tokens":-1}`, "integer_below_min_value", 400, good},
		{chatPath, `{"model":"other","messages":[1]}`, "model_not_found", 404, good},
		{chatPath, `{"model":"` + strings.Repeat("x", 1000) + `"}`, "request_too_large", 413, good},
		{msgPath, `{"model":"sim-small","messages":[1]}`, "max_tokens: Field required", 400, good},
		{"/v1/nothing", `{}`, "unknown_url", 404, good},
		{"/anthropic/v1/embeddings", `{}`, "unknown_url", 404, good},
		{chatPath, ``, "method_not_supported", 405, good},
	} {
		r := send(t, url+c.path, c.body, c.headers...)
		if r.StatusCode != c.status || c.path != "/anthropic/v1/embeddings" && !bytes.Contains(r.body, []byte(c.code)) {
			t.Errorf("%s %s: %d %s", c.path, c.body, r.StatusCode, r.body)
		}
		if c.status != 200 {
			if m := r.json(t); (m["type"] == "error") != (c.path == msgPath || strings.HasPrefix(c.path, anthropicPrefix)) {
				t.Errorf("%s: wrong dialect: %s", c.path, r.body)
			}
		}
	}
}
