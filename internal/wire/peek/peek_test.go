package peek_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/wire/peek"
)

var fields = peek.Fields{MaxTokens: []string{"max_tokens", "max_completion_tokens"}, Prompt: "messages", StreamOptions: true}

func TestBody(t *testing.T) {
	raw := []byte(` {"messages": [1,{"model":"no"},"x"], "mod\u0065l" : "gp\u0074", "stream":true,"max_tokens":9,"max_completion_tokens":7,
		"stream_options":{"x":1,"include_usage":true}}`)
	env, err := peek.Body(raw, fields)
	if err != nil {
		t.Fatal(err)
	}
	if env.Model != "gpt" || !env.Stream || !env.IncludeUsage || env.MaxTokens != 7 || env.Messages != 3 || env.PromptAt.Len() != len(`[1,{"model":"no"},"x"]`) {
		t.Errorf("%+v", env)
	}
	for _, c := range []struct {
		start, end int
		want       string
	}{
		{env.ModelAt.Start, env.ModelAt.End, `"gp\u0074"`}, {env.StreamAt.Start, env.StreamAt.End, "true"},
		{env.StreamOptionsAt.Start, env.StreamOptionsAt.End, `{"x":1,"include_usage":true}`}, {env.IncludeUsageAt.Start, env.IncludeUsageAt.End, "true"},
	} {
		if got := string(raw[c.start:c.end]); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if env, err := peek.Body([]byte(`{"input":"x"}`), peek.Fields{Prompt: "input", DefaultModel: "d"}); err != nil || env.Model != "d" || env.ModelAt.Len() != 0 {
		t.Errorf("%+v %v", env, err)
	}
}

// Many fields are found to differ, or to be the same, as few are; and there is
// an end to them.
func TestManyFields(t *testing.T) {
	body := func(n, twice int) []byte {
		var b strings.Builder
		b.WriteString(`{"model":"m"`)
		for i := range n - 1 {
			fmt.Fprintf(&b, `,"field-%d-%s":0`, i, strings.Repeat("x", i%50))
		}
		if twice >= 0 {
			fmt.Fprintf(&b, `,"field-%d-%s":0`, twice, strings.Repeat("x", twice%50))
		}
		return []byte(b.String() + "}")
	}
	for _, n := range []int{1, 5, 23, 24, 25, 26, 100, 511, 512} {
		if _, err := peek.Body(body(n, -1), fields); err != nil {
			t.Errorf("%d fields: %v", n, err)
		}
		for _, twice := range []int{0, n / 2, n - 2} {
			if twice < 0 || twice > n-2 {
				continue
			}
			if _, err := peek.Body(body(n, twice), fields); err == nil || !strings.Contains(err.Error(), "twice") {
				t.Errorf("%d fields, number %d again: %v", n, twice, err)
			}
		}
	}
	if _, err := peek.Body(body(513, -1), fields); err == nil || !strings.Contains(err.Error(), "512") {
		t.Errorf("513 fields: %v", err)
	}
}

// object decodes the top level as encoding/json sees it: the members in order,
// or an error.
func object(raw []byte) (keys []string, values []json.RawMessage, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, fmt.Errorf("not an object: %w", err)
	}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, nil, err
		}
		keys, values = append(keys, k.(string)), append(values, v)
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, fmt.Errorf("more follows")
	}
	return keys, values, nil
}

// FuzzPeek holds the scan against encoding/json: what is accepted is a JSON
// object with unique keys, and says to others what it says to us.
func FuzzPeek(f *testing.F) {
	for _, s := range []string{
		`{"model":"m"}`, `{"model":"m","model":"n"}`, `{"mod\u0065l":"m","stream":true,"stream_options":{"include_usage":false}}`, `[]`, `{}`, ``, `{"model":1}`,
		`{"model":"\ud83d\ude00","messages":[[],{}],"max_tokens":5}`, "{\"model\":\"\xff\"}", `{"model":"m"} x`, `{"model":"m","a":{"model":"b"}}`,
		`{"model":"m","stream_options":null,"stream":null,"max_tokens":null}`, `{"model":"m","max_tokens":1e2}`, `{"model":"m","\ud800":1,"\ud801":2}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		env, err := peek.Body(raw, fields)
		if !bytes.Equal(raw, before) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			if fault.KindOf(err) != fault.Malformed || !utf8.ValidString(fault.Of(err).Sentence()) {
				t.Fatalf("%v", err)
			}
			return
		}
		if !utf8.Valid(raw) || !json.Valid(raw) {
			t.Fatalf("accepted %q", raw)
		}
		keys, values, err := object(raw)
		if err != nil {
			t.Fatalf("%v: accepted %q", err, raw)
		}
		model, seen := "", map[string]bool{}
		for i, k := range keys {
			// Lone surrogates are one replacement character to encoding/json.
			if seen[k] && !strings.ContainsRune(k, utf8.RuneError) {
				t.Fatalf("accepted %q twice in %q", k, raw)
			}
			seen[k] = true
			switch k {
			case "model":
				_ = json.Unmarshal(values[i], &model)
				if string(raw[env.ModelAt.Start:env.ModelAt.End]) != string(values[i]) {
					t.Fatalf("the model lies elsewhere in %q", raw)
				}
			case "stream":
				if env.Stream != (string(values[i]) == "true") {
					t.Fatalf("stream is %v in %q", env.Stream, raw)
				}
			case "messages":
				var list []json.RawMessage
				if json.Unmarshal(values[i], &list) == nil && len(list) != env.Messages {
					t.Fatalf("%d messages in %q", env.Messages, raw)
				}
			}
		}
		if model != env.Model || model == "" {
			t.Fatalf("the model is %q, to others %q", env.Model, model)
		}
	})
}
