package edge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// described is the description as a client reads it.
func described(t *testing.T) (doc object) {
	t.Helper()
	b, err := json.Marshal(describeAPI(""))
	if err == nil {
		err = json.Unmarshal(b, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// lint lists what limited operations fail to declare: the marker, and in every
// answer of success and every 429 the three common headers, which must exist.
func lint(doc object) (faults []string) {
	known, _ := within(doc, "components", "headers").(object)
	for path, item := range doc["paths"].(object) {
		for method, v := range item.(object) {
			op, name := v.(object), method+" "+path
			if _, asks := op["requestBody"]; !asks {
				continue // it asks nothing of a model
			}
			if op[limitMarker] != true {
				faults = append(faults, name+" is not marked")
			}
			responses := op["responses"].(object)
			if responses["429"] == nil {
				faults = append(faults, name+" has no 429")
			}
			for status, response := range responses {
				if status[0] != '2' && status != "429" {
					continue
				}
				headers, _ := response.(object)["headers"].(object)
				for _, want := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
					if headers[want] == nil {
						faults = append(faults, fmt.Sprintf("%s %s does not declare %s", name, status, want))
					}
				}
				for header, h := range headers {
					ref, _ := h.(object)["$ref"].(string)
					target, _ := known[strings.TrimPrefix(ref, "#/components/headers/")].(object)
					if target["description"] == nil || within(target, "schema", "type") == nil || !strings.HasSuffix(ref, "/"+header) {
						faults = append(faults, fmt.Sprintf("%s %s refers with %s to %q", name, status, header, ref))
					}
				}
			}
		}
	}
	return faults
}

func within(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(object)
		v = m[p]
	}
	return v
}

// P6: the API's description says of every limited operation what its answers say
// of the limits.
func TestLimitsAreDescribed(t *testing.T) {
	doc := described(t)
	if faults := lint(doc); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
	for path, header := range map[string]string{"/v1/chat/completions": "x-ratelimit-reset-tokens", "/v1/messages": "anthropic-ratelimit-tokens-reset"} {
		for _, status := range []string{"200", "429"} {
			if within(doc, "paths", path, "post", "responses", status, "headers", header) == nil {
				t.Errorf("%s: %s is not declared with %s", path, header, status)
			}
		}
		if within(doc, "paths", path, "post", "responses", "429", "headers", "Retry-After") == nil {
			t.Errorf("%s: Retry-After is not declared", path)
		}
	}
	if within(doc, "paths", "/v1/models", "get", limitMarker) != nil {
		t.Error("what is not limited is marked")
	}
}

// The linter sees what is missing.
func TestLintFinds(t *testing.T) {
	for name, spoil := range map[string]func(op object){
		"is not marked": func(op object) { delete(op, limitMarker) },
		"has no 429":    func(op object) { delete(op["responses"].(object), "429") },
		"200 does not declare X-RateLimit-Reset": func(op object) {
			delete(within(op, "responses", "200", "headers").(object), "X-RateLimit-Reset")
		},
		"refers with X-RateLimit-Limit": func(op object) {
			within(op, "responses", "429", "headers").(object)["X-RateLimit-Limit"] = object{"$ref": "#/components/headers/nothing"}
		},
	} {
		doc := described(t)
		spoil(within(doc, "paths", "/v1/embeddings", "post").(object))
		if faults := lint(doc); len(faults) != 1 || !strings.Contains(faults[0], name) {
			t.Errorf("%s: found %q", name, faults)
		}
	}
}
