// Package llm is the gateway's own vocabulary: what a call to a language model
// is, whoever speaks it. It knows no wire format and no technology; every
// other package may import it.
package llm

import (
	"io"
	"math"
	"net/http"
)

// Dialect names a wire protocol that clients or providers speak.
type Dialect string

// The dialects. A provider of dialect Simulator answers a call in whatever
// dialect the call came in.
const (
	OpenAI    Dialect = "openai"
	Anthropic Dialect = "anthropic"
	Gemini    Dialect = "gemini"
	Simulator Dialect = "simulator"
)

// Answers reports whether a provider of dialect d can answer a call of dialect
// c as it stands, without translation.
func (d Dialect) Answers(c Dialect) bool { return d == c || d == Simulator }

// Operation is what a call asks for, independent of the dialect's path. The
// values of the model operations are the OpenTelemetry gen_ai.operation.name
// values where such a name exists.
type Operation string

// The operations.
const (
	Chat           Operation = "chat"
	Completion     Operation = "text_completion"
	Embeddings     Operation = "embeddings"
	Responses      Operation = "responses"
	Moderations    Operation = "moderations"
	Images         Operation = "images"
	Speech         Operation = "speech"
	Transcriptions Operation = "transcriptions"
	CountTokens    Operation = "count_tokens"
	ListModels     Operation = "models.list"
	GetModel       Operation = "models.get"
	LimitStatus    Operation = "limits.get"
)

// Span is a half-open range of bytes within a call's Raw body.
type Span struct{ Start, End int }

// Len is the number of bytes in the span.
func (s Span) Len() int { return s.End - s.Start }

// Edit replaces the bytes of a span. An empty span inserts.
type Edit struct {
	Span
	New []byte
}

// Envelope is the little the gateway reads of a request body.
type Envelope struct {
	// Model is the model's name as the client wrote it, unescaped.
	Model string
	// ModelAt is where the model's value lies in Raw: a JSON string with its
	// quotes, or the bare value of a form field.
	ModelAt Span
	// Stream is whether the body asks for a streamed answer.
	Stream bool
	// StreamAt is the value of "stream" in Raw; empty when the field is absent.
	StreamAt Span
	// IncludeUsage is whether the client asked for the usage chunk of a stream.
	IncludeUsage bool
	// StreamOptionsAt is the value of "stream_options" in Raw; empty when the
	// field is absent.
	StreamOptionsAt Span
	// IncludeUsageAt is the value of "stream_options.include_usage" in Raw.
	IncludeUsageAt Span
	// MaxTokens is the client's bound on the output tokens of one answer, 0 when
	// it set none.
	MaxTokens int64
	// MaxTokensAt are the values of the fields that bound the output in Raw.
	MaxTokensAt [2]Span
	// Choices is how many answers the client asked for at once, 0 when it did
	// not say.
	Choices int64
	// Messages is the number of conversation turns, 0 where that has no meaning.
	Messages int
	// PromptAt is the value that holds the prompt in Raw; empty when the field
	// is absent.
	PromptAt Span
	// Long are long strings of the body, where they lie in Raw, in order and not
	// necessarily all: whoever walks over Raw again can pass over them.
	Long []Span
}

// MaxOutput is the client's bound on all output tokens of the call, 0 when it
// set none.
func (e *Envelope) MaxOutput() int64 {
	n := max(1, e.Choices)
	if e.MaxTokens > math.MaxInt32 || n > math.MaxInt32 {
		return math.MaxInt32
	}
	return e.MaxTokens * n
}

// Call is one request as the gateway understands it. Raw is exactly what the
// client sent and is never modified.
type Call struct {
	ID      string
	Dialect Dialect
	Op      Operation
	// Path is the operation's path below the provider's base URL, with its
	// leading slash and, where the client sent one, its query.
	Path   string
	Method string
	Header http.Header
	// Raw is the whole body, or the head of it when Rest is set.
	Raw []byte
	// Rest is what follows Raw in a streamed upload; nil when Raw is whole.
	Rest io.Reader
	// Form is whether the body is multipart/form-data and not JSON.
	Form bool
	// Length is the body's whole length in bytes, -1 when it is not known.
	Length int64
	// Bound is the bound on output tokens that the gateway sets in the place of
	// the client's, 0 where it sets none.
	Bound int64
	// Edits are what else the gateway changes in Raw, in order.
	Edits []Edit
	// WantsStream is whether the answer is to be streamed: the body says so,
	// or else the Accept header does (then the body is edited to say so).
	WantsStream bool
	Envelope
}

// Principal is who makes a call.
type Principal struct {
	// Key is the configured name of the credential, never the credential.
	Key    string
	Tenant string
	// User is who uses the key, where the credential says so.
	User string
	// Tier names a level of service, "" for none.
	Tier string
	// Rate is the requests per second that the credential itself grants, 0 where
	// it says nothing.
	Rate float64
}

// Usage counts tokens as the dialects' own usage objects do, made comparable:
// Input includes the cached tokens, whichever dialect reported them.
type Usage struct {
	Input      int64
	Cached     int64 // read from the provider's prompt cache; part of Input
	CacheWrite int64 // written to the provider's prompt cache; part of Input
	Output     int64
	Reasoning  int64 // part of Output
	// Estimated is set where the provider did not report Output (or Input) and
	// the gateway counted what passed.
	Estimated bool
}

// Total is all tokens, in and out.
func (u Usage) Total() int64 { return u.Input + u.Output }
