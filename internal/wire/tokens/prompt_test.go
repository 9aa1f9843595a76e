package tokens

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/headgate-ai/headgate/internal/llm"
)

const plenty = 1 << 30 // a budget

func promptOf(body string, dialect llm.Dialect, op llm.Operation, model string) Count {
	return Prompt([]byte(body), dialect, op, model, Calibration{}, plenty)
}

// The examples of OpenAI's cookbook and the counts that its API gave for them.
func TestCookbook(t *testing.T) {
	const jargon = `{"messages":[
{"role":"system","content":"You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
{"role":"system","name":"example_user","content":"New synergies will help drive top-line growth."},
{"role":"system","name":"example_assistant","content":"Things working well together will increase revenue."},
{"role":"system","name":"example_user","content":"Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."},
{"role":"system","name":"example_assistant","content":"Let's talk later when we're less busy about how to do better."},
{"role":"user","content":"This late pivot means we don't have time to boil the ocean for the client deliverable."}]}`
	const weather = `{"messages":[
{"role":"system","content":"You are a helpful assistant that can answer to questions about the weather."},
{"role":"user","content":"What's the weather like in San Francisco?"}],
"tools":[{"type":"function","function":{"name":"get_current_weather","description":"Get the current weather in a given location",
"parameters":{"type":"object","properties":{
"location":{"type":"string","description":"The city and state, e.g. San Francisco, CA"},
"unit":{"type":"string","description":"The unit of temperature to return","enum":["celsius","fahrenheit"]}},"required":["location"]}}}]}`
	for _, c := range []struct {
		body, model string
		want        int
		exact       bool
	}{
		{jargon, "gpt-3.5-turbo", 129, true},
		{jargon, "gpt-4-0613", 129, true},
		{jargon, "gpt-4o", 124, true},
		{jargon, "gpt-4o-mini", 124, true},
		{weather, "gpt-4", 105, false},
		{weather, "gpt-4o", 101, false},
	} {
		if got := promptOf(c.body, llm.OpenAI, llm.Chat, c.model); got.Tokens != c.want || got.Exact != c.exact {
			t.Errorf("%s: %+v, want %d tokens, exact %v", c.model, got, c.want, c.exact)
		}
	}
}

// Bodies whose parts are counted by themselves: n gives the tokens of a text.
func TestPromptRules(t *testing.T) {
	n := func(texts ...string) (sum int) {
		for _, s := range texts {
			sum += O200k().Count([]byte(s))
		}
		return sum
	}
	const long = "The quick brown fox, in a hurry, says \u201chello\u201d to 世界."
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	for name, c := range map[string]struct {
		dialect llm.Dialect
		op      llm.Operation
		body    string
		want    int
		exact   bool
	}{
		"no messages":     {llm.OpenAI, llm.Chat, `{"model":"gpt-4o"}`, 3, true},
		"empty messages":  {llm.OpenAI, llm.Chat, `{"messages":[]}`, 3, true},
		"a string":        {llm.OpenAI, llm.Chat, `{"messages":[{"role":"user","content":` + quoted(long) + `}]}`, 3 + 3 + 1 + n(long), true},
		"escapes":         {llm.OpenAI, llm.Chat, `{"messages":[{"role":"user","content":"a\n\"b\"\u4e16\ud83d\ude00"}]}`, 7 + n("a\n\"b\"世😀"), true},
		"parts":           {llm.OpenAI, llm.Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"One."},{"type":"text","text":"Two."}]}]}`, 7 + n("One.", "Two."), true},
		"null content":    {llm.OpenAI, llm.Chat, `{"messages":[{"role":"assistant","content":null}]}`, 7, true},
		"number content":  {llm.OpenAI, llm.Chat, `{"messages":[{"role":"user","content":12345}]}`, 7 + n("12345"), true},
		"bare messages":   {llm.OpenAI, llm.Chat, `{"messages":["hello there"]}`, 3 + n("hello there"), true},
		"tool call":       {llm.OpenAI, llm.Chat, `{"messages":[{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\"a\":1}"}}]}]}`, 7 + 3 + n("look", `{"a":1}`), false},
		"tool answer":     {llm.OpenAI, llm.Chat, `{"messages":[{"role":"tool","tool_call_id":"call_1","content":"four"}]}`, 7 + n("four"), true},
		"answer's schema": {llm.OpenAI, llm.Chat, `{"messages":[],"response_format":{"type":"json_schema","json_schema":{"a":1}}}`, 3 + n(`{"a":1}`), false},
		"completion":      {llm.OpenAI, llm.Completion, `{"prompt":` + quoted(long) + `}`, n(long), true},
		"completions":     {llm.OpenAI, llm.Completion, `{"prompt":["One.","Two."],"suffix":"Three."}`, n("One.", "Two.", "Three."), true},
		"embedding":       {llm.OpenAI, llm.Embeddings, `{"input":` + quoted(long) + `,"model":"x"}`, n(long), true},
		"token array":     {llm.OpenAI, llm.Embeddings, `{"input":[1,2,3,40000]}`, 4, true},
		"token arrays":    {llm.OpenAI, llm.Embeddings, `{"input":[[1,2,3],[4,5],[]]}`, 5, true},
		"responses":       {llm.OpenAI, llm.Responses, `{"instructions":"Be brief.","input":"Hi there."}`, 3 + 4 + n("Be brief.") + 4 + n("Hi there."), true},
		"response items":  {llm.OpenAI, llm.Responses, `{"input":[{"role":"user","content":[{"type":"input_text","text":"Hi there."}]},{"type":"function_call_output","call_id":"c","output":"42"}]}`, 3 + 4 + n("Hi there.") + 3 + n("42"), false},
		"previous":        {llm.OpenAI, llm.Responses, `{"input":"Hi there.","previous_response_id":"resp_1"}`, 3 + 4 + n("Hi there."), false},
		"list of models":  {llm.OpenAI, llm.ListModels, ``, 0, true},
		"anthropic":       {llm.Anthropic, llm.Chat, `{"system":"Be brief.","messages":[{"role":"user","content":"Hi there."}]}`, n("Be brief.") + 4 + n("Hi there."), false},
		"anthropic blocks": {llm.Anthropic, llm.Chat, `{"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"42"}]},{"type":"text","text":"Why?"}]}]}`,
			n("Be brief.") + 4 + n("42", "Why?"), false},
		"anthropic tools": {llm.Anthropic, llm.Chat, `{"messages":[],"tools":[{"name":"look","input_schema":{}}]}`, 346 + n(`{"name":"look","input_schema":{}}`), false},
		"anthropic document": {llm.Anthropic, llm.Chat, `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"A page of text."}}]}]}`,
			4 + n("A page of text."), false},
		"gemini": {llm.Gemini, llm.Chat, `{"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[{"role":"user","parts":[{"text":"Hi there."}]}]}`, n("Be brief.", "Hi there."), false},
	} {
		got := promptOf(c.body, c.dialect, c.op, "gpt-4o")
		if got.Tokens != c.want || got.Exact != c.exact {
			t.Errorf("%s: %d tokens, exact %v; want %d, %v", name, got.Tokens, got.Exact, c.want, c.exact)
		}
	}
}

// What is no JSON object counts as text.
func TestPromptOfMalformedBodies(t *testing.T) {
	for _, body := range []string{"", "hello there", `{"messages":[{"role":"user","content":"cut`, `[1,2]`, "\xff\xfe", "null", `{"a":1}x`} {
		got := promptOf(body, llm.OpenAI, llm.Chat, "gpt-4o")
		if want := O200k().Count([]byte(body)); got.Tokens != want || got.Exact {
			t.Errorf("%q: %+v, want %d tokens", body, got, want)
		}
	}
}

func TestPromptEstimatesAndCalibrates(t *testing.T) {
	text := string(english(4000))
	body := chatBody(text)
	plain := Prompt(body, llm.OpenAI, llm.Chat, "some-model", Calibration{}, plenty)
	want := EstimateOf(FamilyUnknown, []byte(text)).Tokens + 7
	if plain.Exact || math.Abs(float64(plain.Tokens)-want) > want/50 {
		t.Errorf("%+v, want about %.0f tokens", plain, want)
	}
	if plain.Text.Class != ClassLatin || math.Abs(plain.Text.Tokens-float64(plain.Tokens)) > 1 {
		t.Errorf("the estimate before calibration is %+v of %d", plain.Text, plain.Tokens)
	}
	var cal Calibration
	for range 10 {
		cal = cal.Learn(1.5*plain.Text.Tokens, plain.Text)
	}
	if got := Prompt(body, llm.OpenAI, llm.Chat, "some-model", cal, plenty); math.Abs(float64(got.Tokens)-1.5*plain.Text.Tokens) > 2 {
		t.Errorf("calibrated to half as many more: %d tokens of %d", got.Tokens, plain.Tokens)
	}
	exact := Prompt(body, llm.OpenAI, llm.Chat, "gpt-4o", cal, plenty)
	if exact.Tokens != O200k().Count([]byte(text))+7 || exact.Text != (Estimate{}) {
		t.Errorf("a calibration changed an exact count: %+v", exact)
	}
}

// Over the budget a prompt is counted by samples, whether it is one long string
// or many short ones.
func TestPromptWithinBudget(t *testing.T) {
	text := joined(3, 300<<10)
	var many strings.Builder
	many.WriteString(`{"messages":[`)
	for i, s := range corpus(3, 300) {
		if i > 0 {
			many.WriteByte(',')
		}
		b, _ := json.Marshal(string(s.text))
		fmt.Fprintf(&many, `{"role":"user","content":%s}`, b)
	}
	many.WriteString(`]}`)
	for name, body := range map[string][]byte{"one": chatBody(string(text)), "many": []byte(many.String())} {
		want := Prompt(body, llm.OpenAI, llm.Chat, "gpt-4o", Calibration{}, plenty)
		got := Prompt(body, llm.OpenAI, llm.Chat, "gpt-4o", Calibration{}, 64<<10)
		off := float64(got.Tokens)/float64(want.Tokens) - 1
		t.Logf("%s of %d KiB: %d tokens, %+.2f %%", name, len(body)>>10, got.Tokens, 100*off)
		if !want.Exact || got.Exact || math.Abs(off) > 0.05 {
			t.Errorf("%s: %+v within the budget, %+v without", name, got, want)
		}
	}
}

// How a body is written makes no difference: white space, and characters as
// escapes.
func TestPromptIsTheSameHoweverWritten(t *testing.T) {
	for i, c := range corpus(8, 64) {
		body := chatBody(string(c.text))
		want := Prompt(body, llm.OpenAI, llm.Chat, "gpt-4o", Calibration{}, plenty)
		if n := O200k().Count(c.text) + 7; want.Tokens != n || !want.Exact {
			t.Errorf("text %d: %+v, want %d tokens", i, want, n)
		}
		var spaced bytes.Buffer
		if err := json.Indent(&spaced, body, " ", "\t"); err != nil {
			t.Fatal(err)
		}
		for _, other := range [][]byte{spaced.Bytes(), inASCII(body)} {
			if got := Prompt(other, llm.OpenAI, llm.Chat, "gpt-4o", Calibration{}, plenty); got != want {
				t.Errorf("text %d: %+v, and %+v written otherwise", i, want, got)
			}
		}
	}
}

// inASCII is a body with all other characters as escapes.
func inASCII(body []byte) (escaped []byte) {
	for _, r := range string(body) {
		if r < 0x80 {
			escaped = append(escaped, byte(r))
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			escaped = fmt.Appendf(escaped, "\\u%04x", u)
		}
	}
	return escaped
}

// A Scratch that is used again changes nothing.
func TestScratchIsReused(t *testing.T) {
	var s Scratch
	for i, c := range corpus(6, 200) {
		body := chatBody(string(c.text))
		want := Prompt(body, llm.OpenAI, llm.Chat, "gpt-4o", Calibration{}, plenty)
		if got := s.Prompt(body, llm.OpenAI, llm.Chat, "gpt-4o", Calibration{}, plenty); got != want {
			t.Fatalf("text %d: %+v with a used scratch, %+v with a new one", i, got, want)
		}
	}
	s.Prompt(chatBody(strings.Repeat("\\x", keep)), llm.OpenAI, llm.Chat, "gpt-4o", Calibration{}, 0)
	if cap(s.text) > keep {
		t.Errorf("the scratch holds on to %d bytes", cap(s.text))
	}
}

func chatBody(content string) []byte {
	b, err := json.Marshal(map[string]any{
		"model":    "gpt-4o",
		"messages": []any{map[string]any{"role": "user", "content": content}},
	})
	if err != nil {
		panic(err)
	}
	return b
}

// conversation is a chat request of about size bytes in turns of a few
// sentences.
func conversation(size int) []byte {
	var turns []any
	for n, i := 0, 0; n < size; i++ {
		text := strings.Join(seeds()["english"][i%30:i%30+4], " ") + "\n" + seeds()["code"][i%len(seeds()["code"])]
		turns = append(turns, map[string]any{"role": []string{"user", "assistant"}[i%2], "content": text})
		n += len(text) + 40
	}
	b, err := json.Marshal(map[string]any{"model": "gpt-4o", "stream": true, "messages": turns})
	if err != nil {
		panic(err)
	}
	return b
}

func TestPromptAllocates(t *testing.T) {
	body := conversation(16 << 10)
	var s Scratch
	for _, model := range []string{"gpt-4o", "gpt-4", "claude-sonnet-4-5"} {
		if n := testing.AllocsPerRun(20, func() { s.Prompt(body, llm.OpenAI, llm.Chat, model, Calibration{}, plenty) }); n != 0 {
			t.Errorf("%s: counting a prompt allocates %v times", model, n)
		}
	}
}

func FuzzPrompt(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"}}]}]}`,
		`{"tools":[{"function":{"name":"f","parameters":{"properties":{"a":{"enum":[1]}}}}}]}`,
		`{"system":[{"text":"x"}],"messages":[{"content":[{"type":"document","source":{"data":"AAAA"}}]}]}`,
		`{"input":[[1],2,"x",{"type":"message","role":"user","content":"\ud83d\ude00"}]}`,
		`{"contents":{"parts":[{"inlineData":{"mimeType":"image/webp","data":"UklGRg"}}]}}`,
		"not JSON", `{"messages":[`,
	} {
		f.Add([]byte(s), uint8(0), uint8(0), 100)
	}
	dialects := []llm.Dialect{llm.OpenAI, llm.Anthropic, llm.Gemini, llm.Simulator, ""}
	ops := []llm.Operation{llm.Chat, llm.Responses, llm.Completion, llm.Embeddings, llm.CountTokens, llm.Transcriptions}
	models := []string{"gpt-4o", "gpt-4", "claude-sonnet-4-5", "gemini-2.5-pro", "gpt-4.1-mini", ""}
	f.Fuzz(func(t *testing.T, body []byte, which, model uint8, budget int) {
		dialect, op := dialects[int(which)%len(dialects)], ops[int(which)/len(dialects)%len(ops)]
		got := Prompt(body, dialect, op, models[int(model)%len(models)], Calibration{}, budget)
		if got.Tokens < got.ImageTokens || got.ImageTokens < 0 || got.Images < 0 || got.Images > len(body) {
			t.Errorf("%+v", got)
		}
		if !json.Valid(body) && op != llm.Transcriptions && got.Exact && len(body) > 0 {
			t.Errorf("%+v of a body that is not JSON", got)
		}
		if json.Valid(body) {
			var s Scratch
			s.Know(longOf(body))
			if again := s.Prompt(body, dialect, op, models[int(model)%len(models)], Calibration{}, budget); again != got {
				t.Errorf("%+v, and %+v where the body is known", got, again)
			}
		}
	})
}
