// Package wire defines what a dialect must be able to do at the gateway's two
// sides. A dialect is a tool: it reads and writes bytes, and neither keeps
// state between calls nor does any I/O. The rooms edge and stream use it; the
// dialects themselves are the packages below this one.
package wire

import (
	"net/http"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
)

// Inbound is the half of a dialect that faces the client.
type Inbound interface {
	// Dialect names the dialect.
	Dialect() llm.Dialect
	// Peek reads the little that the gateway must know of a JSON request body,
	// and refuses what two parsers could read in two ways.
	Peek(op llm.Operation, raw []byte) (llm.Envelope, error)
	// Fault writes an error body in the dialect.
	Fault(dst []byte, e *fault.Error, requestID string) []byte
	// FaultEvent writes what ends a begun event stream with an error.
	FaultEvent(dst []byte, op llm.Operation, e *fault.Error, requestID string) []byte
	// Ping writes a keep-alive that every SDK of the dialect ignores.
	Ping(dst []byte, op llm.Operation) []byte
	// Cutter makes what can end one event stream of op before its time.
	Cutter(op llm.Operation) Cutter
	// Limits collects how a call stands against its limits as the dialect's own
	// headers.
	Limits(v *Values, l *Limits)
}

// Cutter ends an event stream in its middle as a provider does whose model has
// reached the bound on its output: what is open is closed, the reason and the
// usage are told, the end mark follows. It sees the events that the client gets
// of which the Tap says that they are Structural; only a stream that may be cut
// has one.
type Cutter interface {
	// Event notes what the end must know of. It keeps nothing that it is given.
	Event(name, data []byte)
	// End writes what ends the stream behind the latest event. usage is whether
	// the client asked for a usage event where the dialect sends none unasked.
	End(dst []byte, u llm.Usage, usage bool) []byte
	// Reason is the dialect's own word for such an end.
	Reason() string
}

// Outbound is the half of a dialect that faces the provider.
type Outbound interface {
	Dialect() llm.Dialect
	// Edits appends what must change in call.Raw for a provider that knows the
	// model as model: nothing at all when it can travel as it is. The edits are
	// in order and do not overlap.
	Edits(edits []llm.Edit, call *llm.Call, model string) []llm.Edit
	// Tap makes the observer of one event stream.
	Tap(op llm.Operation) Tap
	// Answer reads a whole JSON answer with a status below 300.
	Answer(op llm.Operation, body []byte) Answer
	// UsageTail reads the usage out of the end of an answer too large to hold.
	UsageTail(op llm.Operation, tail []byte) (llm.Usage, bool)
	// Refusal classifies an answer with a status of 300 or more. It never
	// repeats a body that is not an error of the dialect.
	Refusal(status int, header http.Header, body []byte) *fault.Error
	// StreamEnd is what a complete stream of the dialect ends with, for a
	// provider that left it out; empty where nothing is missing.
	StreamEnd(op llm.Operation) string
}

// Tap watches the events of one stream pass. It can neither alter nor delay
// them, and must not keep what it is given.
type Tap interface {
	// Event looks at one event with data.
	Event(name, data []byte) Signal
	// Usage is what the stream has reported so far, with Estimated set where
	// the gateway had to count for itself.
	Usage() llm.Usage
	// FinishReason is the dialect's own word for why the model stopped, "" as
	// long as it has not.
	FinishReason() string
	// Fault is the error that the provider reported within the stream.
	Fault() *fault.Error
}

// Signal is what a Tap recognised in an event.
type Signal uint8

// The signals; an event may give several.
const (
	// Content is a token, or part of a tool call, for the user.
	Content Signal = 1 << iota
	// UsageOnly is the extra usage event that exists only because it was asked for.
	UsageOnly
	// Finished means that nothing essential is missing if the stream ends here.
	Finished
	// Last is the dialect's end mark: nothing may follow.
	Last
	// Failed is an error reported by the provider within the stream.
	Failed
	// Malformed is data that is not what the dialect says it must be.
	Malformed
	// Structural is what an end before the stream's own must close or repeat.
	Structural
)

// Has is whether all signals of other are in s.
func (s Signal) Has(other Signal) bool { return s&other == other }

// Answer is what the gateway reads of a whole JSON answer.
type Answer struct {
	Usage        llm.Usage
	FinishReason string
	// Fault is set when the answer is an error after all, or no answer.
	Fault *fault.Error
}
