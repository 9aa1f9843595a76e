package fault

// Kind is one row of the taxonomy. The zero Kind is Internal, so an error that
// nobody classified is reported as our mistake and never as the caller's.
type Kind uint8

// The kinds. Their meaning is the table below.
const (
	Internal Kind = iota
	Malformed
	UnsupportedMedia
	TooLarge
	MissingRequestID
	Unauthenticated
	KeyExpired
	Forbidden
	ModelNotAllowed
	ModelNotFound
	PathNotFound
	MethodNotAllowed
	ClientTimeout
	RateLimited
	QuotaExhausted
	Overloaded
	Draining
	Canceled
	SlowClient
	NotTranslatable
	UpstreamUnreachable
	UpstreamFailed
	UpstreamDenied
	UpstreamRejected
	UpstreamRateLimited
	UpstreamMalformed
	UpstreamTruncated
	UpstreamTimeout
	UpstreamIdle
	kinds // their number
)

// Blame says whose objective a failure is charged to.
type Blame uint8

// Who can be to blame.
const (
	Ours Blame = iota
	Theirs
	Upstreams
	Nobody
)

// String names the party in records and metrics.
func (b Blame) String() string { return [...]string{"gateway", "client", "upstream", "nobody"}[b] }

// row is everything a kind means. The gRPC codes are those of
// google.rpc.Code; the dialect columns hold the spelling of each vendor's
// published error reference. Code is the OpenAI dialect's machine-readable
// code: the vendor's own where it has one, UPPER_SNAKE where it has none.
type row struct {
	name      string
	status    int
	grpc      uint8
	openai    string
	code      string
	anthropic string
	gemini    string
	blame     Blame
	retry     bool // the client may try again
	trips     bool // counts against the upstream's circuit breaker
	public    string
}

var table = [kinds]row{
	Internal:            {"internal", 500, 13, "server_error", "INTERNAL", "api_error", "INTERNAL", Ours, true, false, "The gateway failed to process the request."},
	Malformed:           {"malformed", 400, 3, "invalid_request_error", "INVALID_REQUEST", "invalid_request_error", "INVALID_ARGUMENT", Theirs, false, false, "The request could not be understood."},
	UnsupportedMedia:    {"unsupported_media", 415, 3, "invalid_request_error", "UNSUPPORTED_MEDIA_TYPE", "invalid_request_error", "INVALID_ARGUMENT", Theirs, false, false, "The request's content type or encoding is not supported."},
	TooLarge:            {"too_large", 413, 3, "invalid_request_error", "REQUEST_TOO_LARGE", "request_too_large", "INVALID_ARGUMENT", Theirs, false, false, "The request body is larger than this gateway accepts."},
	MissingRequestID:    {"missing_request_id", 400, 3, "invalid_request_error", "MISSING_REQUEST_ID", "invalid_request_error", "INVALID_ARGUMENT", Theirs, false, false, "This gateway requires an X-Request-ID header of 1 to 128 visible ASCII characters."},
	Unauthenticated:     {"unauthenticated", 401, 16, "invalid_request_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED", Theirs, false, false, "The API key is missing or not known to this gateway; send one as Authorization: Bearer."},
	KeyExpired:          {"key_expired", 401, 16, "invalid_request_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED", Theirs, false, false, "The API key has expired; ask who operates the gateway for a new one."},
	Forbidden:           {"forbidden", 403, 7, "permission_error", "FORBIDDEN", "permission_error", "PERMISSION_DENIED", Theirs, false, false, "The API key may not do this."},
	ModelNotAllowed:     {"model_not_allowed", 403, 7, "permission_error", "MODEL_NOT_ALLOWED", "permission_error", "PERMISSION_DENIED", Theirs, false, false, "The API key may not use this model."},
	ModelNotFound:       {"model_not_found", 404, 5, "invalid_request_error", "model_not_found", "not_found_error", "NOT_FOUND", Theirs, false, false, "The model does not exist here."},
	PathNotFound:        {"path_not_found", 404, 5, "invalid_request_error", "unknown_url", "not_found_error", "NOT_FOUND", Theirs, false, false, "There is nothing at this path."},
	MethodNotAllowed:    {"method_not_allowed", 405, 12, "invalid_request_error", "METHOD_NOT_ALLOWED", "invalid_request_error", "UNIMPLEMENTED", Theirs, false, false, "This path does not take this method."},
	ClientTimeout:       {"client_timeout", 408, 4, "invalid_request_error", "REQUEST_TIMEOUT", "timeout_error", "DEADLINE_EXCEEDED", Theirs, true, false, "The request body did not arrive in time."},
	RateLimited:         {"rate_limited", 429, 8, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED", Theirs, true, false, "A rate limit was reached."},
	QuotaExhausted:      {"quota_exhausted", 429, 8, "insufficient_quota", "insufficient_quota", "rate_limit_error", "RESOURCE_EXHAUSTED", Theirs, false, false, "The budget is used up."},
	Overloaded:          {"overloaded", 503, 14, "server_error", "OVERLOADED", "overloaded_error", "UNAVAILABLE", Ours, true, false, "The gateway is shedding load."},
	Draining:            {"draining", 503, 14, "server_error", "SHUTTING_DOWN", "overloaded_error", "UNAVAILABLE", Ours, true, false, "The gateway is shutting down."},
	Canceled:            {"canceled", 499, 1, "server_error", "CANCELED", "api_error", "CANCELLED", Nobody, false, false, "The client went away."},
	SlowClient:          {"slow_client", 499, 1, "server_error", "SLOW_CLIENT", "api_error", "CANCELLED", Theirs, false, false, "The client stopped reading."},
	NotTranslatable:     {"not_translatable", 501, 12, "invalid_request_error", "UNSUPPORTED_DIALECT", "invalid_request_error", "UNIMPLEMENTED", Ours, false, false, "The model's provider speaks another dialect than this path."},
	UpstreamUnreachable: {"upstream_unreachable", 502, 14, "server_error", "UPSTREAM_UNREACHABLE", "api_error", "UNAVAILABLE", Upstreams, true, true, "The model's provider could not be reached."},
	UpstreamFailed:      {"upstream_failed", 502, 14, "server_error", "UPSTREAM_FAILED", "api_error", "UNAVAILABLE", Upstreams, true, true, "The model's provider failed."},
	UpstreamDenied:      {"upstream_denied", 502, 7, "server_error", "UPSTREAM_DENIED", "api_error", "PERMISSION_DENIED", Ours, false, false, "The model's provider did not accept this gateway's credential."},
	UpstreamRejected:    {"upstream_rejected", 400, 3, "invalid_request_error", "UPSTREAM_REJECTED", "invalid_request_error", "INVALID_ARGUMENT", Theirs, false, false, "The model's provider refused the request."},
	UpstreamRateLimited: {"upstream_rate_limited", 429, 8, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED", Upstreams, true, false, "The model's provider is limiting the rate of requests."},
	UpstreamMalformed:   {"upstream_malformed", 502, 13, "server_error", "UPSTREAM_MALFORMED", "api_error", "INTERNAL", Upstreams, true, true, "The model's provider sent an answer that could not be understood."},
	UpstreamTruncated:   {"upstream_truncated", 502, 13, "server_error", "UPSTREAM_TRUNCATED", "api_error", "INTERNAL", Upstreams, true, true, "The model's provider broke off in the middle of its answer."},
	UpstreamTimeout:     {"upstream_timeout", 504, 4, "server_error", "UPSTREAM_TIMEOUT", "timeout_error", "DEADLINE_EXCEEDED", Upstreams, true, true, "The model's provider did not answer in time."},
	UpstreamIdle:        {"upstream_idle", 504, 4, "server_error", "UPSTREAM_IDLE", "timeout_error", "DEADLINE_EXCEEDED", Upstreams, true, true, "The model's provider fell silent in the middle of its answer."},
}

// Kinds lists all kinds, for tables in documents and tests.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

func (k Kind) row() *row {
	if k >= kinds {
		k = Internal
	}
	return &table[k]
}

// String names the kind in records, metrics and documents.
func (k Kind) String() string { return k.row().name }

// Status is the HTTP status of the kind (RFC 9110; 499 is nginx's "client
// closed request", which only records and metrics ever show).
func (k Kind) Status() int { return k.row().status }

// GRPC is the kind's google.rpc.Code.
func (k Kind) GRPC() int { return int(k.row().grpc) }

// OpenAIType is error.type in the OpenAI dialect.
func (k Kind) OpenAIType() string { return k.row().openai }

// Code is error.code in the OpenAI dialect.
func (k Kind) Code() string { return k.row().code }

// AnthropicType is error.type in the Anthropic dialect.
func (k Kind) AnthropicType() string { return k.row().anthropic }

// GeminiStatus is error.status in the Gemini dialect.
func (k Kind) GeminiStatus() string { return k.row().gemini }

// Blame is whose objective the failure is charged to.
func (k Kind) Blame() Blame { return k.row().blame }

// Retryable is whether trying again may help.
func (k Kind) Retryable() bool { return k.row().retry }

// Trips is whether the failure counts against the upstream's circuit breaker.
func (k Kind) Trips() bool { return k.row().trips }

// Public is the kind's own sentence for clients.
func (k Kind) Public() string { return k.row().public }
