package fake

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
)

// form is a decoded request body. Keys are matched exactly, as vendors do and
// struct decoding would not.
type form struct {
	fields map[string]json.RawMessage
	files  int
	// The first field that is wrong.
	param, wrong, code string
}

// decode reads the body, which is JSON or a multipart form.
func (c *call) decode(asForm bool) bool {
	if c.r.Method == http.MethodGet {
		return true
	}
	c.form.fields = map[string]json.RawMessage{}
	var err error
	if asForm {
		err = c.form.readMultipart(c.r.Header.Get("Content-Type"), c.body)
	} else {
		err = json.Unmarshal(c.body, &c.form.fields)
	}
	if err != nil {
		message := "We could not parse the body of your request: " + err.Error()
		if c.dialect == anthropic {
			message = "The request body is not valid JSON: " + err.Error()
		}
		c.fail(http.StatusBadRequest, message, "", "")
		return false
	}
	c.model = c.form.text("model")
	if c.form.wrong != "" {
		c.rejectForm()
		return false
	}
	if c.model != "" {
		c.s.note(func() { c.rec.Model = c.model })
	}
	return true
}

// readMultipart keeps a form's values as JSON strings, and only counts files.
func (f *form) readMultipart(contentType string, body []byte) error {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return err
	}
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if part.FileName() != "" {
			f.files++
			continue
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return err
		}
		f.fields[part.FormName()], err = json.Marshal(string(value))
		if err != nil {
			return err
		}
	}
}

// rejectForm answers 400 for the first wrong field.
func (c *call) rejectForm() {
	message := c.form.wrong
	if c.dialect == anthropic {
		message = c.form.param + ": " + message
	}
	c.fail(http.StatusBadRequest, message, c.form.param, c.form.code)
}

// reject notes what is wrong with a field, unless another was wrong before.
func (f *form) reject(param, code, message string) {
	if f.wrong == "" {
		f.param, f.code, f.wrong = param, code, message
	}
}

// require notes the fields that are missing.
func (c *call) require(names ...string) {
	for _, name := range names {
		if c.form.has(name) {
			continue
		}
		message := "Missing required parameter: '" + name + "'."
		if c.dialect == anthropic {
			message = "Field required"
		}
		c.form.reject(name, "missing_required_parameter", message)
	}
}

func (f *form) has(name string) bool {
	raw, ok := f.fields[name]
	return ok && string(raw) != "null"
}

// get decodes a field into v and notes when it has another type.
func (f *form) get(name string, v any, want string) bool {
	if !f.has(name) {
		return false
	}
	if err := json.Unmarshal(f.fields[name], v); err != nil {
		f.reject(name, "invalid_type", "Invalid type for '"+name+"': expected "+want+".")
		return false
	}
	return true
}

func (f *form) text(name string) (s string) {
	f.get(name, &s, "a string")
	return s
}

func (f *form) flag(name string) (b bool) {
	f.get(name, &b, "a boolean")
	return b
}

func (f *form) list(name string) (l []json.RawMessage) {
	f.get(name, &l, "an array")
	return l
}

// object is for members whose own types do not matter.
func (f *form) object(name string) (m map[string]json.RawMessage) {
	f.get(name, &m, "an object")
	return m
}

// whole reads a whole number of at least least, else 0. A form's numbers are
// strings.
func (f *form) whole(name string, least int) int {
	if !f.has(name) {
		return 0
	}
	var n json.Number
	if !f.get(name, &n, "an integer") {
		return 0
	}
	v, err := strconv.Atoi(n.String())
	if err != nil {
		f.reject(name, "invalid_type", "Invalid type for '"+name+"': expected an integer, but got "+n.String()+".")
		return 0
	}
	if v < least {
		f.reject(name, "integer_below_min_value", "Invalid '"+name+"': integer below minimum value. Expected a value >= "+strconv.Itoa(least)+", but got "+n.String()+" instead.")
		return 0
	}
	return v
}

// promptFields are what a prompt may consist of, in any dialect.
var promptFields = []string{"messages", "system", "prompt", "input", "instructions", "tools"}

// promptTokens estimates the prompt: four bytes of text a token, and at least one.
func (f *form) promptTokens() int {
	bytes := 0
	for _, name := range promptFields {
		if raw, ok := f.fields[name]; ok {
			bytes += textBytes(raw)
		}
	}
	return max(1, (bytes+3)/4)
}

// textBytes sums the JSON strings of raw. A very long one without a space is
// an image or a file, and counts as four kilobytes.
func textBytes(raw json.RawMessage) (sum int) {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		start := i + 1
		for i++; i < len(raw) && raw[i] != '"'; i++ {
			if raw[i] == '\\' {
				i++
			}
		}
		n := min(i, len(raw)) - start
		if n > 4<<10 && !bytes.ContainsRune(raw[start:start+n], ' ') {
			n = 4 << 10
		}
		sum += n
	}
	return sum
}

// estimate is what the limiter counts before the answer is made.
func (c *call) estimate() int {
	limit := 0
	for _, name := range []string{"max_completion_tokens", "max_tokens", "max_output_tokens"} {
		var n int
		if json.Unmarshal(c.form.fields[name], &n) == nil {
			limit = max(limit, n)
		}
	}
	if limit == 0 {
		limit = 16
	}
	return c.form.promptTokens() + limit
}
