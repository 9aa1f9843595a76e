package fake

// Fault is one way to misbehave.
type Fault struct {
	// Name is what Config.Fault and the override "fault" say.
	Name string
	// Doc is what happens, in one sentence.
	Doc string
	// Streams is whether the fault needs a streamed answer; answers in one piece are then unharmed.
	Streams bool
}

// The names of the faults.
const (
	faultHTML       = "html"
	faultEmpty      = "empty"
	faultHalf       = "half-json"
	faultErrorBody  = "error-body"
	faultErrorEvent = "error-event"
	faultMalformed  = "malformed"
	faultCutUTF8    = "cut-utf8"
	faultCutJSON    = "cut-json"
	faultReset      = "reset"
	faultAbort      = "abort"
	faultShort      = "short-length"
	faultNoDone     = "no-done"
	faultNoBlank    = "no-blank"
	faultCRLF       = "crlf"
	faultCR         = "cr"
	faultBOM        = "bom"
	faultComments   = "comments"
	faultMultiline  = "multi-line"
	faultSplit      = "split"
	faultDrip       = "drip"
	faultGiant      = "giant"
	faultGzip       = "gzip"
	faultUnary      = "unary"
	faultWrongUsage = "wrong-usage"
	faultNoUsage    = "no-usage"
	faultStall      = "stall"
	faultBadLimits  = "bad-limits"
)

// Faults are all ways to misbehave; documentation and --help print them.
var Faults = []Fault{
	{faultHTML, "502 with an HTML page, as a load balancer in front of the provider would send", false},
	{faultEmpty, "200 with no body at all", false},
	{faultHalf, "200 with the first half of the JSON, ended as if whole; a stream ends so within an event", false},
	{faultErrorBody, "200 with a JSON body that is an error object, for a stream too", false},
	{faultErrorEvent, "a stream sends an error event after fault_after tokens and ends", true},
	{faultMalformed, "one event, or the body, is not JSON; a stream goes on after it", false},
	{faultCutUTF8, "the connection breaks inside a character of several bytes", false},
	{faultCutJSON, "the connection breaks inside a JSON value", false},
	{faultReset, "TCP reset: before an answer in one piece, after fault_after tokens of a stream", false},
	{faultAbort, "the connection breaks between two events, without a reset; an answer in one piece never begins", false},
	{faultShort, "content-length promises more bytes than come; for answers in one piece", false},
	{faultNoDone, "a stream ends cleanly without [DONE], message_stop or response.completed", true},
	{faultNoBlank, "the blank line after a stream's last event is missing", true},
	{faultCRLF, "a stream's lines end in CRLF", true},
	{faultCR, "a stream's lines end in CR", true},
	{faultBOM, "the body begins with a byte order mark", false},
	{faultComments, "comment lines stand before every event", true},
	{faultMultiline, "every event's JSON is spread over two data lines", true},
	{faultSplit, "every event is written in two flushes, divided inside a character of several bytes", true},
	{faultDrip, "every event is written seven bytes a flush", true},
	{faultGiant, "one event holds a text of event_size bytes", true},
	{faultGzip, "the body is gzip-encoded, asked for or not", false},
	{faultUnary, "a stream was asked for and one JSON body comes", true},
	{faultWrongUsage, "the usage numbers are multiplied by usage.factor", false},
	{faultNoUsage, "no usage is reported", false},
	{faultStall, "silence for stall_for after fault_after tokens; 0 tokens means before the first byte, or the first event with early_headers", false},
	{faultBadLimits, "429 whose limit and retry headers make no sense", false},
}

func faultNamed(name string) bool {
	for _, f := range Faults {
		if f.Name == name {
			return true
		}
	}
	return false
}
