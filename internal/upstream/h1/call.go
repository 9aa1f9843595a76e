package h1

import "io"

// Call is a request whose head is written straight into the connection's
// buffer: to put it into an http.Request, with a map and an address, and to take
// it out again costs more than to send it.
type Call struct {
	// Scheme and Host say where it goes; Host is also the field of that name.
	Scheme, Host string
	Method       string
	// Prefix and Path together are the target, with the query and escaped.
	Prefix, Path string
	Fields       Fields
	// Body is nil where there is none; Length is its length, -1 if that is not
	// known. Only a Memory can be sent again.
	Body   io.ReadCloser
	Length int64
}

// Fields are the field lines of a call.
type Fields interface {
	// AppendFields appends the lines, each with AppendField, but no Host and
	// nothing about the framing.
	AppendFields(b []byte) ([]byte, error)
}

// AppendField appends a field line.
func AppendField(b []byte, name, value string) ([]byte, error) {
	switch {
	case !isToken(name):
		return b, refused("field name %q is not a token", name)
	case !validValue(value):
		return b, refused("the value of %q holds a control character", name) // it may be a secret
	}
	return appendLine(b, name, value), nil
}

func appendLine(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, trimSpace(value)...), "\r\n"...)
}

// take checks a call, as init does a request.
func (o *outgoing) take(q *Call) error {
	o.key, o.method, o.host = hostKey{q.Scheme, q.Host}, q.Method, dropZone(q.Host)
	o.prefix, o.path, o.fields = q.Prefix, q.Path, q.Fields
	if !validTarget(o.prefix) || !validTarget(o.path) {
		return refused("the target holds a blank or a control character")
	}
	if err := o.check(); err != nil || q.Body == nil {
		return err
	}
	o.body, o.length = q.Body, q.Length
	if !o.memory(q.Body) && o.length <= 0 {
		o.length = -1
	}
	return nil
}
