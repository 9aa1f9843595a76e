package fake

import (
	"net/http"
	"strings"
)

// route is one endpoint.
type route struct {
	method    string
	dialect   dialect
	both      bool // the anthropic-version header decides the dialect
	multipart bool
	handle    func(*call)
}

const anthropicPrefix = "/anthropic"

var routes = map[string]route{
	"/v1/chat/completions":      {method: http.MethodPost, handle: (*call).chat},
	"/v1/completions":           {method: http.MethodPost, handle: (*call).completions},
	"/v1/responses":             {method: http.MethodPost, handle: (*call).responses},
	"/v1/embeddings":            {method: http.MethodPost, handle: (*call).embeddings},
	"/v1/moderations":           {method: http.MethodPost, handle: (*call).moderations},
	"/v1/images/generations":    {method: http.MethodPost, handle: (*call).images},
	"/v1/images/edits":          {method: http.MethodPost, multipart: true, handle: (*call).images},
	"/v1/audio/speech":          {method: http.MethodPost, handle: (*call).speech},
	"/v1/audio/transcriptions":  {method: http.MethodPost, multipart: true, handle: (*call).transcribe},
	"/v1/audio/translations":    {method: http.MethodPost, multipart: true, handle: (*call).transcribe},
	"/v1/messages":              {method: http.MethodPost, dialect: anthropic, handle: (*call).messages},
	"/v1/messages/count_tokens": {method: http.MethodPost, dialect: anthropic, handle: (*call).countTokens},
	"/v1/models":                {method: http.MethodGet, both: true, handle: (*call).models},
	"/v1/models/{id}":           {method: http.MethodGet, both: true, handle: (*call).modelByID},
}

// routeOf finds the endpoint of a path. Below /anthropic there are only
// Anthropic's own.
func routeOf(path string) (route, bool) {
	inner, prefixed := strings.CutPrefix(path, anthropicPrefix)
	if id, ok := strings.CutPrefix(inner, "/v1/models/"); ok && id != "" {
		inner = "/v1/models/{id}"
	}
	r, ok := routes[inner]
	if prefixed && ok && r.dialect != anthropic && !r.both {
		return route{}, false
	}
	return r, ok
}
