// Package fault is the closed list of things that can go wrong with a request,
// and what each of them means to a client, an operator and a circuit breaker.
// Every package may import it; it imports only the standard library.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Error is a classified failure. Public may be shown to a client; Err never is.
type Error struct {
	Kind Kind
	// Op is the verb that failed, as "package.Verb".
	Op string
	// Public is the sentence for the client; empty means the kind's own.
	Public string
	// Param names the field of the request that was wrong, where one was.
	Param string
	// Code overrides the kind's machine-readable code.
	Code string
	// Details is context for the client, as JSON-encodable values.
	Details map[string]any
	// RetryAfter is when trying again may help; 0 says nothing about it.
	RetryAfter time.Duration
	// Status overrides the kind's HTTP status: an upstream's own, passed on.
	Status int
	// Body is an upstream's error body in the caller's own dialect, to be
	// passed on as it stands. Empty means: write one from the fields above.
	Body []byte
	// Final marks a fault that the client should not retry, because the
	// gateway already has.
	Final bool
	Err   error
}

// New makes a fault with a public sentence.
func New(k Kind, op, format string, args ...any) *Error {
	return &Error{Kind: k, Op: op, Public: fmt.Sprintf(format, args...)}
}

// Wrap classifies err; the client sees the kind's own sentence.
func Wrap(k Kind, op string, err error) *Error { return &Error{Kind: k, Op: op, Err: err} }

// Error describes the fault for operators.
func (e *Error) Error() string {
	s := e.Op + ": " + e.Kind.String()
	if e.Public != "" {
		s += ": " + e.Public
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// HTTPStatus is the status the client sees.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	return e.Kind.Status()
}

// Sentence is what the client may read.
func (e *Error) Sentence() string {
	if e.Public != "" {
		return e.Public
	}
	return e.Kind.Public()
}

// Of classifies any error: the *Error inside it, or an Internal one around it.
// Of(nil) is nil.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: Internal, Op: "gateway", Err: err}
}

// KindOf is the kind of any error; an unclassified one is Internal, our
// mistake and never the caller's.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}
