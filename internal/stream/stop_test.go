package stream

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/openai"
)

// stopAt stops a stream at its nth content event.
func stopAt(n int) change {
	return func(_ *Config, e *Events) {
		e.Tap = &tally{Tap: e.Tap}
		e.Allow = func(llm.Usage) int64 { return int64(n) }
	}
}

// tally is a tap that counts each content event as one token.
type tally struct {
	wire.Tap
	n int64
}

func (t *tally) Event(name, data []byte) wire.Signal {
	s := t.Tap.Event(name, data)
	if s.Has(wire.Content) {
		t.n++
	}
	return s
}

func (t *tally) Usage() llm.Usage {
	u := t.Tap.Usage()
	u.Output, u.Estimated = t.n, true
	return u
}

// decoded is every event of a stream but the end mark.
func decoded(t testing.TB, text string) (all []map[string]any, marked bool) {
	t.Helper()
	_, datas := parse(t, text)
	for i, data := range datas {
		if data == "[DONE]" {
			if i != len(datas)-1 {
				t.Fatalf("[DONE] is not the last event: %q", datas)
			}
			return all, true
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		all = append(all, m)
	}
	return all, false
}

// at is v's member at a path of keys and indexes.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// A length stop at every event of a 64 KiB stream, with all kinds of reads:
// every event parses, and the stream always ends as the dialect ends one.
func TestStopAnywhere(t *testing.T) {
	var text strings.Builder
	text.WriteString(role)
	n := 0
	for ; text.Len() < 64<<10; n++ {
		text.WriteString(token(strings.Repeat(`é\n`, n%40) + fmt.Sprint(n)))
	}
	whole := text.String() + stop + usage + done
	sizes := []int{1, 2, 3, 7, 100, 1000, 4095, 4096, 16_383, 16_384, 16_385, 20_000}
	for limit := 1; limit <= n; limit++ {
		for i, size := range sizes {
			if (limit+i)%stride != 0 || size < 7 && limit%16 != 0 {
				continue
			}
			hide := i%2 == 0
			began := time.Now()
			r := relay(t, chat, &pieces{whole, size, io.EOF}, stopAt(limit), func(_ *Config, e *Events) { e.HideUsage = hide })
			if took := time.Since(began); took > time.Second {
				t.Fatalf("limit %d: took %v", limit, took)
			}
			if r.err != nil || !r.Stopped || r.FinishReason != "length" || !r.provider.aborted || !r.Usage.Estimated {
				t.Fatalf("limit %d, reads of %d: %+v %v", limit, size, r.Receipt, r.err)
			}
			all, marked := decoded(t, r.got)
			want := 1 + limit + 1
			if !hide {
				want++
				if u := all[len(all)-1]["usage"]; at(u, "completion_tokens") != float64(r.Usage.Output) {
					t.Fatalf("usage is %v, receipt %+v", u, r.Usage)
				}
				all = all[:len(all)-1]
				want--
			}
			last := all[len(all)-1]
			if !marked || len(all) != want || at(last, "choices", 0, "finish_reason") != "length" || last["id"] != "chatcmpl-1" || last["object"] != "chat.completion.chunk" {
				t.Fatalf("limit %d, reads of %d: %d events, want %d, the last %v", limit, size, len(all), want, last)
			}
			if !strings.HasPrefix(whole, r.got[:strings.Index(r.got, `"logprobs":null,"finish_reason":"length"`)-400]) && limit > 5 {
				t.Fatalf("limit %d: what was passed was changed", limit)
			}
		}
	}
	// At the last content event nothing is cut short; a limit beyond it does nothing.
	r := relay(t, chat, &pieces{whole, 1000, io.EOF}, stopAt(n+1))
	if r.err != nil || r.Stopped || r.got != whole {
		t.Errorf("%+v %v", r.Receipt, r.err)
	}
}

func TestStopByUsage(t *testing.T) {
	text := role + strings.Repeat(token("12345678"), 50) + stop + done
	r := relay(t, chat, &pieces{text, 333, io.EOF}, func(_ *Config, e *Events) {
		e.Allow = func(llm.Usage) int64 { return 20 }
	})
	if r.Usage.Output != 20 || strings.Count(r.got, "12345678") != 10 {
		t.Errorf("%+v", r.Usage)
	}
}

func TestStopClosesEveryOpenChoice(t *testing.T) {
	other := func(i int, text string) string {
		return strings.Replace(text, `"index":0`, fmt.Sprint(`"index":`, i), 1)
	}
	text := role + other(1, role) + other(2, role) + token("a") + other(1, token("b")) + other(1, stop) + other(2, token("c")) + token("never")
	r := relay(t, chat, &pieces{text, 50, io.EOF}, stopAt(3))
	all, marked := decoded(t, r.got)
	ends := map[any]any{}
	for _, m := range all {
		if reason := at(m, "choices", 0, "finish_reason"); reason != nil {
			ends[at(m, "choices", 0, "index")] = reason
		}
	}
	if r.err != nil || !marked || ends[0.0] != "length" || ends[1.0] != "stop" || ends[2.0] != "length" {
		t.Errorf("%v %v: %s", r.err, ends, r.got)
	}
	// A content event that also finishes its only choice is not cut.
	last := strings.Replace(token("a"), `"finish_reason":null`, `"finish_reason":"stop"`, 1)
	if r = relay(t, chat, &pieces{role + last + done, 50, io.EOF}, stopAt(1)); r.Stopped || r.FinishReason != "stop" || r.got != role+last+done {
		t.Errorf("%+v: %q", r.Receipt, r.got)
	}
	// Text completions and operations without a length.
	v := conversation{"", openai.Dialect{}, llm.Completion, ""}
	r = relay(t, v, &pieces{`data: {"id":"c","object":"text_completion","choices":[{"text":"a","index":0,"finish_reason":null}]}` + "\n\ndata: {", 9, io.EOF}, stopAt(1))
	if all, marked = decoded(t, r.got); !marked || at(all[1], "choices", 0, "text") != "" || at(all[1], "choices", 0, "finish_reason") != "length" || all[1]["object"] != "text_completion" {
		t.Errorf("%v", all)
	}
	v.op = llm.Speech
	if r = relay(t, v, &pieces{"data: {\"audio\":\"a\"}\n\ndata: {\"audio\":\"b\"}\n\n", 9, io.EOF}, stopAt(1)); r.err != nil || r.got != "data: {\"audio\":\"a\"}\n\n" && !strings.Contains(r.got, "b") {
		t.Errorf("%v %q", r.err, r.got)
	}
}

func TestStopAnthropic(t *testing.T) {
	r := relay(t, messages, &pieces{messages.text, 30, io.EOF}, stopAt(1))
	names, _ := parse(t, r.got)
	all, _ := decoded(t, r.got)
	want := []string{"message_start", "content_block_start", "ping", "content_block_delta", "content_block_stop", "message_delta", "message_stop"}
	if r.err != nil || !slices.Equal(names, want) || r.FinishReason != "max_tokens" || !r.provider.aborted {
		t.Fatalf("%v %v %+v", r.err, names, r.Receipt)
	}
	for i, name := range names {
		if all[i]["type"] != name {
			t.Errorf("%s has the type %v", name, all[i]["type"])
		}
	}
	if d := all[5]; at(d, "delta", "stop_reason") != "max_tokens" || at(d, "usage", "output_tokens") != float64(r.Usage.Output) || r.Usage.Output == 0 || r.Usage.Input != 5 {
		t.Errorf("%v %+v", d, r.Usage)
	}
	// Through its own tap the cut stream is a whole one.
	again := relay(t, messages, &pieces{r.got, 30, io.EOF})
	if again.err != nil || again.FinishReason != "max_tokens" || again.got != r.got {
		t.Errorf("%v %+v", again.err, again.Receipt)
	}
}

func TestStopResponses(t *testing.T) {
	for n := 1; n <= 2; n++ {
		r := relay(t, responses, &pieces{responses.text, 30, io.EOF}, stopAt(n))
		names, _ := parse(t, r.got)
		all, _ := decoded(t, r.got)
		want := []string{"response.created", "response.output_item.added", "response.content_part.added", "response.output_text.delta", "response.output_text.delta", "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.incomplete"}
		want = slices.Delete(want, 3, 3+2-n)
		if r.err != nil || !slices.Equal(names, want) || r.FinishReason != "incomplete" {
			t.Fatalf("%v %v %+v", r.err, names, r.Receipt)
		}
		for i, m := range all {
			if m["type"] != names[i] || m["sequence_number"] != float64(i) {
				t.Errorf("event %d: %v", i, m)
			}
		}
		text := []string{"", "Hé", "Héllo"}[n]
		k := len(all)
		for i, got := range []any{
			at(all[k-4], "text"), at(all[k-3], "part", "text"), at(all[k-2], "item", "content", 0, "text"),
			at(all[k-1], "response", "output", 0, "content", 0, "text"),
		} {
			if got != text {
				t.Errorf("text %d is %v, want %q", i, got, text)
			}
		}
		end := at(all[k-1], "response")
		if at(end, "status") != "incomplete" || at(end, "incomplete_details", "reason") != "max_output_tokens" || at(end, "id") != "resp_1" ||
			at(end, "usage", "output_tokens") != float64(r.Usage.Output) || at(end, "output", 0, "status") != "incomplete" || at(all[k-2], "item", "id") != "msg_1" || at(all[k-4], "item_id") != "msg_1" {
			t.Errorf("%v", end)
		}
	}
	// In a tool call, behind a finished item.
	tool := strings.Replace(responses.text, responses.text[strings.Index(responses.text, "event: response.completed"):], "", 1) +
		typed("response.output_item.added", 8, `"output_index":1,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"c","name":"f"}`) +
		typed("response.function_call_arguments.delta", 9, `"item_id":"fc_1","output_index":1,"delta":"{\"a\":"`) +
		typed("response.function_call_arguments.delta", 10, `"item_id":"fc_1","output_index":1,"delta":"1}"`)
	r := relay(t, responses, &pieces{tool, 100, io.EOF}, stopAt(3))
	all, _ := decoded(t, r.got)
	end := at(all[len(all)-1], "response", "output")
	if r.err != nil || at(end, 0, "content", 0, "text") != "Héllo" || at(end, 0, "status") != "completed" || at(end, 1, "arguments") != `{"a":` || at(end, 1, "status") != "incomplete" {
		t.Errorf("%v %v", r.err, end)
	}
}

func FuzzStop(f *testing.F) {
	f.Add(5, 16_384, "word é")
	f.Fuzz(func(t *testing.T, limit, size int, word string) {
		limit, size = 1+int(uint(limit)%200), 1+int(uint(size)%20_000)
		quoted, _ := json.Marshal(word + "x")
		text := role + strings.Repeat(token(string(quoted[1:len(quoted)-1])), 200) + stop + done
		r := relay(t, chat, &pieces{text, size, io.EOF}, stopAt(limit))
		all, marked := decoded(t, r.got)
		if r.err != nil || !marked || at(all[len(all)-2], "choices", 0, "finish_reason") != "length" || len(all) != limit+3 {
			t.Fatalf("limit %d, reads of %d: %v, %d events", limit, size, r.err, len(all))
		}
	})
}
