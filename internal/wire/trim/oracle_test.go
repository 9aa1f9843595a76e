package trim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headgate-ai/headgate/internal/llm"
)

// The rules once more, slowly and over decoded messages.

func decode(t *testing.T, raw []byte) object {
	t.Helper()
	var body object
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Fatalf("%v in %.300s", err, raw)
	}
	return body
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func isSystem(m object) bool { return m["role"] == "system" || m["role"] == "developer" }

// ids are those of the calls or of the results in a message.
func ids(m object, results bool) (all []string) {
	add := func(v any) {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	if results {
		add(m["tool_call_id"])
	}
	if (m["type"] == "function_call_output") == results {
		add(m["call_id"])
	}
	calls, _ := m["tool_calls"].([]any)
	parts, _ := m["content"].([]any)
	for _, v := range append(calls, parts...) {
		part := v.(object)
		if results {
			add(part["tool_use_id"])
		} else {
			add(part["id"])
		}
	}
	return all
}

// starts are where turns begin.
func starts(list []any) (at []int) {
	begins := make([]bool, len(list))
	for i, v := range list {
		begins[i] = v.(object)["role"] == "user" && len(ids(v.(object), true)) == 0
	}
	for j, v := range list {
		for _, id := range ids(v.(object), true) {
			i := j - 1
			for !contains(ids(list[i].(object), false), id) {
				i--
			}
			for k := i + 1; k <= j; k++ {
				begins[k] = false
			}
		}
	}
	for i, yes := range begins {
		if yes {
			at = append(at, i)
		}
	}
	return at
}

func contains(all []string, s string) bool {
	return strings.Contains("\n"+strings.Join(all, "\n")+"\n", "\n"+s+"\n")
}

// without is the list without the messages before the given one, system
// messages excepted.
func without(list []any, before int) (rest []any) {
	for i, v := range list {
		if i >= before || isSystem(v.(object)) {
			rest = append(rest, v)
		}
	}
	return rest
}

// withList is the body with another list of messages.
func withList(t *testing.T, raw []byte, op llm.Operation, list []any) []byte {
	body := decode(t, raw)
	body[keyOf(op)] = list
	return encode(t, body)
}

// shortest cuts all texts that may be cut to what must be left of them.
func shortest(v any) any {
	switch v := v.(type) {
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, shortest(e))
		}
		return out
	case object:
		out := object{}
		for k, e := range v {
			_, isString := e.(string)
			plain := v["type"] == "text" && v["media_type"] != nil // a document's source
			switch {
			case isString && (k == "content" || k == "text" || k == "output" || k == "data" && plain):
				out[k] = e.(string)[:leastOf([]byte(e.(string)))]
			case k == "content" || k == "source":
				out[k] = shortest(e)
			default:
				out[k] = e
			}
		}
		if isSystem(v) {
			return v
		}
		return out
	}
	return v
}

// checkSame compares two values of which the strings in got may be shorter, and
// returns how many are.
func checkSame(t *testing.T, where string, want, got any) (cut int) {
	t.Helper()
	switch want := want.(type) {
	case object:
		got, ok := got.(object)
		if !ok || len(got) != len(want) {
			t.Fatalf("%s: %v became %v", where, want, got)
		}
		for k := range want {
			cut += checkSame(t, where+"."+k, want[k], got[k])
		}
		return cut
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			t.Fatalf("%s: %v became %v", where, want, got)
		}
		for i := range want {
			cut += checkSame(t, fmt.Sprintf("%s[%d]", where, i), want[i], got[i])
		}
		return cut
	case string:
		got, ok := got.(string)
		if !ok || !strings.HasPrefix(want, got) {
			t.Fatalf("%s: %q is no beginning of %q", where, got, want)
		}
		if got == want {
			return 0
		}
		checkCut(t, where, want, got)
		return 1
	}
	if want != got {
		t.Fatalf("%s: %v became %v", where, want, got)
	}
	return 0
}

// checkCut looks at where a text was cut.
func checkCut(t *testing.T, where, want, got string) {
	t.Helper()
	rest := want[len(got):]
	end := strings.TrimLeft(rest, whiteSpace) != rest
	for _, mark := range []string{"。", "？"} {
		end = end || strings.HasSuffix(got, mark)
	}
	long := !strings.ContainsAny(strings.TrimSpace(got[max(0, len(got)-lookBack):]), whiteSpace+"。？")
	if !end && !long || !utf8.ValidString(got) || strings.TrimSpace(got) == "" {
		t.Fatalf("%s: cut between %q and %q", where, got[max(0, len(got)-60):], rest[:min(60, len(rest))])
	}
}
