package admin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/authn/confirm"
	"github.com/headgate-ai/headgate/internal/fault"
)

// maxChange bounds the body of a change, in bytes.
const maxChange = 64 << 10

// Refusal is a change that cannot be made, and what would be right.
type Refusal struct {
	// Status is the HTTP status that says what kind of mistake it is.
	Status  int
	Message string
}

// Error is the message.
func (r *Refusal) Error() string { return r.Message }

// refuse makes a refusal.
func refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{status, fmt.Sprintf(format, args...)}
}

// change is one change that an operator asks for.
type change struct {
	g         *server
	w         http.ResponseWriter
	r         *http.Request
	operation string
	target    string
	body      []byte
}

// begin reads what a change is to be; into is nil where it has no body. Where
// that cannot be read the operator is told, and ok is false.
func (g *server) begin(w http.ResponseWriter, r *http.Request, operation, target string, into any) (c *change, ok bool) {
	c = &change{g: g, w: w, r: r, operation: operation, target: target}
	var err error
	if c.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxChange)); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			err = refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxChange)
		} else {
			err = refuse(http.StatusBadRequest, "the body could not be read")
		}
	} else if into != nil {
		err = decode(r, c.body, into)
	} else if len(bytes.TrimSpace(c.body)) > 0 {
		err = refuse(http.StatusBadRequest, "this takes no body")
	}
	if err != nil {
		c.fail(err)
		return c, false
	}
	return c, true
}

// decode reads a JSON object, strictly: a member that is misspelled must not be
// passed over.
func decode(r *http.Request, body []byte, into any) error {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "send a JSON object, with Content-Type: application/json")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return refuse(http.StatusBadRequest, "%q cannot be a %s", t.Field, t.Value)
		}
		return refuse(http.StatusBadRequest, "the body is not what this takes: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse(http.StatusBadRequest, "the body goes on after its JSON object")
	}
	return nil
}

// fail tells the operator why the change was not made.
func (c *change) fail(err error) {
	if r, ok := errors.AsType[*Refusal](err); ok {
		fail(c.w, r.Status, r.Message)
		return
	}
	fail(c.w, http.StatusInternalServerError, err.Error())
}

// who asks, for the record: never anything of the token.
func (c *change) who() string {
	host, _, err := net.SplitHostPort(c.r.RemoteAddr)
	if err != nil {
		host = c.r.RemoteAddr
	}
	if c.g.Token() == "" {
		return "operator on this machine, " + host
	}
	return "holder of the admin token, " + host
}

// principal is what a confirmation is bound to: the token, by its hash, or the
// machine.
func (c *change) principal() string {
	token := c.g.Token()
	if token == "" {
		return "loopback"
	}
	sum := sha256.Sum256([]byte(token))
	return "token:" + hex.EncodeToString(sum[:])
}

// confirmed is whether the change has been confirmed. On the first call it is
// not: the answer is a token, with which the same call is to be made again. The
// token is in no log, nor in the record.
func (c *change) confirmed(reason string) bool {
	q := c.r.URL.Query()
	token := c.r.Header.Get("X-Confirm-Token")
	if token == "" {
		token = q.Get("confirm")
	}
	q.Del("confirm")
	bound := c.r.Method + " " + c.r.URL.Path + "?" + q.Encode()
	body, now := sha256.Sum256(c.body), time.Now()
	if token == "" {
		c.ask(bound, body, reason, now)
		return false
	}
	if err := c.g.book.Redeem(token, c.principal(), bound, body, now); err != nil {
		_ = c.record(Entry{Step: stepRefused, Reason: reason})
		f := fault.Of(err)
		write(c.w, http.StatusForbidden, map[string]any{"error": map[string]string{"code": f.Code, "message": f.Public}})
		return false
	}
	return true
}

// ask answers with a token.
func (c *change) ask(bound string, body [sha256.Size]byte, reason string, now time.Time) {
	token, err := c.g.book.Issue(c.principal(), bound, body, now)
	if err != nil {
		fail(c.w, http.StatusServiceUnavailable, fault.Of(err).Public)
		return
	}
	if err := c.record(Entry{Step: stepAsked, Reason: reason}); err != nil {
		c.fail(err)
		return
	}
	write(c.w, http.StatusPreconditionRequired, map[string]any{
		"error": map[string]string{
			"code":    "CONFIRMATION_REQUIRED",
			"message": "This needs to be confirmed: send the same request again with the header X-Confirm-Token.",
		},
		"confirm": token, "expires_in": int(confirm.TTL / time.Second),
	})
}

// record enters a step of the change.
func (c *change) record(e Entry) error {
	e.Who, e.Operation, e.Target = c.who(), c.operation, c.target
	return c.g.Audit.Record(e)
}

// done records that the change was made and answers. A change that could not be
// recorded has still been made, which the operator must know.
func (c *change) done(status int, e Entry, answer any) {
	e.Step = stepDone
	if err := c.record(e); err != nil {
		c.g.Journal.Logger().Error("an operator's change was made and not recorded", "operation", c.operation, "target", c.target, "error", err.Error())
		fail(c.w, http.StatusInternalServerError, "the change was made, and could not be recorded: "+err.Error())
		return
	}
	write(c.w, status, answer)
}
