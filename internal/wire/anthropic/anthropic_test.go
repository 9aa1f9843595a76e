package anthropic_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/anthropic"
)

var d anthropic.Dialect

func decode(t testing.TB, raw []byte) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return m
}

func TestFaults(t *testing.T) {
	for _, k := range fault.Kinds() {
		e := &fault.Error{Kind: k, Public: "A \"quoted\" sentence.\n"}
		event := string(d.FaultEvent(nil, llm.Chat, e, "r"))
		data, ok := strings.CutPrefix(event, "event: error\ndata: ")
		if !ok || strings.Count(event, "\n\n") != 1 || !strings.HasSuffix(event, "\n\n") {
			t.Errorf("%q", event)
		}
		for _, raw := range []string{string(d.Fault(nil, e, "r")), data} {
			m := decode(t, []byte(raw))
			want := map[string]any{"type": "error", "error": map[string]any{"type": k.AnthropicType(), "message": e.Public}, "request_id": "r"}
			if !reflect.DeepEqual(m, want) {
				t.Errorf("%s: %s", k, raw)
			}
		}
	}
}

func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		kind    fault.Kind
		passed  bool
		message string
	}{
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"busy"},"request_id":"x"}`, fault.UpstreamFailed, true, "busy"},
		{400, `{"error":{"type":"invalid_request_error","message":"no"},"type":"error"}`, fault.UpstreamRejected, true, "no"},
		{400, `{"error":{"message":"OpenAI's shape","type":"x"}}`, fault.UpstreamRejected, false, "OpenAI's shape"},
		{429, `{"message":"gateway's"}`, fault.UpstreamRateLimited, false, "gateway's"},
		{500, `<html>`, fault.UpstreamFailed, false, ""},
	} {
		f := d.Refusal(c.status, nil, []byte(c.body))
		if f.Kind != c.kind || (f.Body != nil) != c.passed || f.Public != c.message || f.HTTPStatus() != c.status {
			t.Errorf("%s: %+v", c.body, f)
		}
	}
}

func TestAnswer(t *testing.T) {
	a := d.Answer(llm.Chat, []byte(`{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":3,"cache_read_input_tokens":10,"cache_creation_input_tokens":5,"output_tokens":4}}`))
	if want := (llm.Usage{Input: 18, Cached: 10, CacheWrite: 5, Output: 4}); a.Usage != want || a.FinishReason != "end_turn" || a.Fault != nil {
		t.Errorf("%+v", a)
	}
	for _, body := range []string{``, ` `, `{"usage"`, `{"type":"error","error":{"type":"api_error","message":"x"}}`} {
		if a := d.Answer(llm.Chat, []byte(body)); a.Fault == nil || a.Fault.HTTPStatus() < 500 {
			t.Errorf("%q: %+v", body, a)
		}
	}
	if a := d.Answer(llm.CountTokens, []byte(`{"input_tokens":9}`)); a.Usage != (llm.Usage{}) || a.Fault != nil {
		t.Errorf("%+v", a)
	}
}

func FuzzEdits(f *testing.F) {
	for _, s := range []string{`{"model":"m","max_tokens":1}`, ` {"stream":false , "model" : "m"}`, `{"model":"m","stream":null}`, `{"model":"m","stream_options":7}`} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, stream bool) {
		env, err := d.Peek(llm.Chat, raw)
		if err != nil {
			return
		}
		call := &llm.Call{Op: llm.Chat, Raw: raw, Envelope: env, WantsStream: stream || env.Stream}
		was, is := decode(t, raw), decode(t, wire.Apply(nil, raw, d.Edits(nil, call, "other")))
		if is["model"] != "other" || call.WantsStream && is["stream"] != true {
			t.Fatalf("%s became %v", raw, is)
		}
		for _, m := range []map[string]any{was, is} {
			delete(m, "model")
			if call.WantsStream {
				delete(m, "stream")
			}
		}
		if !reflect.DeepEqual(was, is) {
			t.Fatalf("%v became %v", was, slices.Sorted(maps.Keys(is)))
		}
	})
}

func FuzzTap(f *testing.F) {
	for _, s := range []string{
		`{"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}`, `{"type":"content_block_delta","delta":{"text":"hi"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`, `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`,
		`{"type":"ping"}`, `{"type":"message_start","message":7}`, `{"type":"content_block_delta"}`, `{"type":"message_delta","delta":[],"usage":[]}`, `{"type":"message_start"`, ``,
	} {
		f.Add([]byte(s), []byte(`{"type":"content_block_delta","delta":{"partial_json":"{"}}`))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		tap := d.Tap(llm.Chat)
		for _, data := range [][]byte{first, second} {
			s := tap.Event(nil, data)
			var m map[string]json.RawMessage
			if json.Unmarshal(data, &m) != nil && s.Has(wire.Content) {
				t.Fatalf("content in %q", data)
			}
			if s.Has(wire.Failed) && tap.Fault() == nil {
				t.Fatalf("failed without a fault: %q", data)
			}
		}
		if u := tap.Usage(); u.Input < 0 || u.Output < 0 || u.Cached < 0 || u.CacheWrite < 0 {
			t.Fatalf("%+v", u)
		}
	})
}
