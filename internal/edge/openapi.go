package edge

import (
	"encoding/json"
	"net/http"
	"strings"
)

// OpenAPI serves the description of the paths that clients may call, as OpenAPI
// 3.1. It is made from the route table and so cannot differ from it. Bodies are
// those of the vendors' API references and are not repeated.
func OpenAPI(version string) http.Handler {
	doc, err := json.MarshalIndent(describeAPI(version), "", " ")
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			http.Error(w, "the description cannot be written", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(doc)
	})
}

type object = map[string]any

func describeAPI(version string) object {
	paths := object{}
	for i := range routes {
		r := &routes[i]
		item, ok := paths[r.Pattern].(object)
		if !ok {
			item = object{}
			paths[r.Pattern] = item
		}
		item[strings.ToLower(r.Method)] = r.describe()
	}
	if version == "" {
		version = "0.0.0"
	}
	return object{
		"openapi": "3.1.0",
		"info":    object{"title": "Headgate", "version": version, "description": "The paths of the OpenAI and Anthropic dialects that this gateway relays."},
		"paths":   paths,
		"components": object{
			"headers": describeHeaders(),
			"securitySchemes": object{
				"bearer": object{"type": "http", "scheme": "bearer"},
				"header": object{"type": "apiKey", "in": "header", "name": "x-api-key"},
			},
		},
		"security": []object{{"bearer": []string{}}, {"header": []string{}}},
	}
}

func (r *Route) describe() object {
	ok := object{"application/json": object{}}
	if r.Events {
		ok["text/event-stream"] = object{}
	}
	responses := object{
		"200":     object{"description": "The provider's answer.", "content": ok},
		"default": object{"description": "An error, in the dialect of the path.", "content": object{"application/json": object{}}},
	}
	op := object{"summary": r.Summary, "operationId": operationID(r), "tags": []string{string(r.Dialect)}, "responses": responses}
	r.describeLimits(op, responses)
	content := object{}
	if r.Body == JSONBody || r.Body == JSONOrFormBody {
		content["application/json"] = object{"schema": object{"type": "object"}}
	}
	if r.Body == FormBody || r.Body == JSONOrFormBody {
		content["multipart/form-data"] = object{"schema": object{"type": "object"}}
	}
	if len(content) > 0 {
		op["requestBody"] = object{"required": true, "content": content}
	}
	if strings.Contains(r.Pattern, "{id}") {
		op["parameters"] = []object{{"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}}}
	}
	return op
}

func operationID(r *Route) string {
	name := strings.NewReplacer("/v1/", "", "/", "_", "{", "", "}", "").Replace(r.Pattern)
	return strings.ToLower(r.Method) + "_" + name
}
