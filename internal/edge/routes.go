package edge

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
)

// Body is what a route takes as its request body.
type Body uint8

// The kinds of request bodies.
const (
	NoBody Body = iota
	JSONBody
	FormBody       // multipart/form-data only
	JSONOrFormBody // either
)

// Route is one path that clients may call.
type Route struct {
	Method  string
	Pattern string // as in the route table and in records; {id} stands for the rest
	Dialect llm.Dialect
	Op      llm.Operation
	// Upstream is the path below the provider's base URL.
	Upstream string
	Body     Body
	// Summary is the sentence in the API description.
	Summary string
	// Events is whether the answer can be an event stream.
	Events bool
}

// routes is the whole table. The OpenAI dialect's base URLs end in the version,
// the Anthropic dialect's do not; hence the difference in Upstream.
var routes = []Route{
	{"POST", "/v1/chat/completions", llm.OpenAI, llm.Chat, "/chat/completions", JSONBody, "Create a chat completion.", true},
	{"POST", "/v1/completions", llm.OpenAI, llm.Completion, "/completions", JSONBody, "Create a text completion.", true},
	{"POST", "/v1/responses", llm.OpenAI, llm.Responses, "/responses", JSONBody, "Create a model response.", true},
	{"POST", "/v1/embeddings", llm.OpenAI, llm.Embeddings, "/embeddings", JSONBody, "Create embedding vectors.", false},
	{"POST", "/v1/moderations", llm.OpenAI, llm.Moderations, "/moderations", JSONBody, "Classify content.", false},
	{"POST", "/v1/images/generations", llm.OpenAI, llm.Images, "/images/generations", JSONBody, "Create images from a prompt.", true},
	{"POST", "/v1/images/edits", llm.OpenAI, llm.Images, "/images/edits", JSONOrFormBody, "Edit images.", true},
	{"POST", "/v1/images/variations", llm.OpenAI, llm.Images, "/images/variations", FormBody, "Create variations of an image.", false},
	{"POST", "/v1/audio/speech", llm.OpenAI, llm.Speech, "/audio/speech", JSONBody, "Create speech from text.", true},
	{"POST", "/v1/audio/transcriptions", llm.OpenAI, llm.Transcriptions, "/audio/transcriptions", FormBody, "Transcribe audio.", true},
	{"POST", "/v1/audio/translations", llm.OpenAI, llm.Transcriptions, "/audio/translations", FormBody, "Translate audio into English text.", false},
	{"GET", "/v1/models", llm.OpenAI, llm.ListModels, "/models", NoBody, "List the models that the key may use.", false},
	{"GET", "/v1/models/{id}", llm.OpenAI, llm.GetModel, "/models/", NoBody, "Describe one model that the key may use.", false},
	{"GET", "/v1/status/rate-limit", llm.OpenAI, llm.LimitStatus, "", NoBody, "Tell how the key stands against its limits; takes nothing of them.", false},
	{"POST", "/v1/messages", llm.Anthropic, llm.Chat, "/v1/messages", JSONBody, "Create a message.", true},
	{"POST", "/v1/messages/count_tokens", llm.Anthropic, llm.CountTokens, "/v1/messages/count_tokens", JSONBody, "Count the tokens of a message.", false},
}

// prefixes are put before the paths of a dialect by clients that address
// several dialects at one host.
var prefixes = []struct {
	path    string
	dialect llm.Dialect
}{{"/anthropic", llm.Anthropic}, {"/openai", llm.OpenAI}}

// Routes lists every route, for the API description and its tests.
func Routes() []Route { return routes }

// table finds routes by path.
var table = func() map[string][]*Route {
	t := map[string][]*Route{}
	for i := range routes {
		r := &routes[i]
		t[r.Pattern] = append(t[r.Pattern], r)
	}
	return t
}()

// Hot is whether a path, as sent, is one that inference calls are POSTed to
// with a JSON body.
func Hot(path string) bool {
	for _, r := range table[path] {
		if r.Method == http.MethodPost && r.Body == JSONBody {
			return true
		}
	}
	return false
}

const (
	modelsPath    = "/v1/models"
	modelsPattern = "/v1/models/{id}"
)

// find looks a request's path up. It returns the route and, for the path of a
// single model, the model's id; a nil route and a list of methods where the
// path exists but not for this method; and neither where there is no such path.
// The dialect is that of the answer in every case.
func find(r *http.Request) (route *Route, id string, allow []string, d llm.Dialect) {
	path := r.URL.EscapedPath()
	d = llm.OpenAI
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(path, p.path); ok && strings.HasPrefix(rest, "/v1/") {
			path, d = rest, p.dialect
		}
	}
	if strings.HasPrefix(path, "/v1/messages") || wire.First(r.Header, "Anthropic-Version") != "" && strings.HasPrefix(path, modelsPath) {
		d = llm.Anthropic
	}
	candidates := table[path]
	if rest, ok := strings.CutPrefix(path, modelsPath+"/"); ok && rest != "" {
		unescaped, err := url.PathUnescape(rest)
		if err != nil {
			return nil, "", nil, d
		}
		candidates, id = table[modelsPattern], unescaped
	}
	for _, c := range candidates {
		if c.Method == r.Method || c.Method == "GET" && r.Method == "HEAD" {
			return c, id, nil, d
		}
		allow = append(allow, c.Method)
	}
	return nil, "", allow, d
}
