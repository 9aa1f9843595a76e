package fake

import (
	"crypto/tls"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

type dialect uint8

const (
	openai dialect = iota
	anthropic
)

// call is one request while it is answered. Only its handler touches it.
type call struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	rc      *http.ResponseController
	cfg     Config // with this request's overrides
	dialect dialect
	path    string // without /anthropic
	id      string
	body    []byte
	form    form
	model   string // as asked, with overrides
	hash    uint64 // of path and body
	rng     *rand.Rand
	luck    *rand.Rand // latencies and failures
	rec     *Request
	began   time.Time // when a slot was free
	next    time.Time // when the next token is due
	timer   *time.Timer
	tokens  int
	stalled bool
	outcome Outcome
}

// readBody reads the whole body first: net/http notices that a client left
// only once the body is read.
func (c *call) readBody() bool {
	limit := int64(c.cfg.MaxBody)
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		c.fail(http.StatusRequestEntityTooLarge, "Request exceeds the maximum size of "+strconv.FormatInt(limit, 10)+" bytes", "", "request_too_large")
		return false
	case err != nil:
		c.outcome = Cancelled
		return false
	}
	c.body = body
	if keep := min(int(c.cfg.KeepBody), len(body)); keep > 0 && c.cfg.Keep > 0 {
		c.s.note(func() { c.rec.Body = body[:keep:keep] })
	}
	return true
}

// authorised checks the credential, wherever a dialect may carry it.
func (c *call) authorised() bool {
	if len(c.cfg.Keys) == 0 {
		return true
	}
	h := c.r.Header
	bearer, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	for _, key := range []string{bearer, h.Get("X-Api-Key"), h.Get("Api-Key")} {
		if key != "" && slices.Contains(c.cfg.Keys, key) {
			return true
		}
	}
	message := "Incorrect API key provided"
	if c.dialect == anthropic {
		message = "invalid x-api-key"
	}
	c.fail(http.StatusUnauthorized, message, "", "invalid_api_key")
	return false
}

// override applies what the model's name and the headers ask for.
func (c *call) override() bool {
	err := c.cfg.applyModel(c.model)
	if err == nil {
		err = c.cfg.applyHeaders(c.r.Header)
	}
	if err != nil {
		c.fail(http.StatusBadRequest, err.Error(), "", "invalid_override")
	}
	return err == nil
}

// unknownModel answers 404 for a model that a strict provider does not have.
func (c *call) unknownModel() bool {
	if !c.cfg.Strict || c.model == "" || slices.Contains(c.cfg.Models, BaseModel(c.model)) {
		return false
	}
	message := "The model `" + c.model + "` does not exist or you do not have access to it."
	if c.dialect == anthropic {
		message = "model: " + c.model
	}
	c.fail(http.StatusNotFound, message, "", "model_not_found")
	return true
}

// schedule sets when the first token is due.
func (c *call) schedule(prompt, hidden int) {
	wait := c.cfg.FirstToken.Duration(c.luck) + times(c.cfg.PromptGap.Std(), prompt)
	for range hidden {
		wait += c.cfg.TokenGap.Duration(c.luck)
	}
	c.next = c.began.Add(wait)
	h := c.w.Header()
	h.Set("Server-Timing", "queue;dur="+millis(c.began.Sub(c.rec.Began))+", prefill;dur="+millis(wait))
}

// times keeps a long prompt from overflowing a duration.
func times(d time.Duration, n int) time.Duration {
	return time.Duration(min(float64(d)*float64(n), maxWait))
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64)
}

// pause waits until c.next. It is false if the client left.
func (c *call) pause() bool {
	return c.sleep(time.Until(c.next))
}

func (c *call) sleep(d time.Duration) bool {
	done := c.r.Context().Done()
	if d <= 0 {
		select {
		case <-done:
			return c.gone()
		default:
			return true
		}
	}
	if c.timer == nil {
		c.timer = time.NewTimer(d)
	} else {
		c.timer.Reset(d)
	}
	select {
	case <-c.timer.C:
		return true
	case <-done:
		return c.gone()
	}
}

func (c *call) gone() bool {
	c.outcome = Cancelled
	return false
}

func (c *call) stopTimer() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// stall is silent for as long as the configuration says.
func (c *call) stall() bool {
	d := c.cfg.StallFor.Std()
	if d == 0 {
		d = math.MaxInt64
	}
	ok := c.sleep(d)
	c.next = time.Now()
	return ok
}

// header writes the response headers.
func (c *call) header(status int) {
	h := c.w.Header()
	if c.dialect == openai {
		h.Set("Openai-Processing-Ms", strconv.FormatInt(time.Since(c.rec.Began).Milliseconds(), 10))
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	c.s.note(func() { c.rec.Status = status })
	c.w.WriteHeader(status)
}

// head sets what every response carries.
func (c *call) head() {
	h := c.w.Header()
	h.Set("X-Request-Id", c.id)
	if c.dialect == anthropic {
		h.Set("Request-Id", c.id)
		h.Set("Anthropic-Organization-Id", "org-headgate-simulator")
		return
	}
	h.Set("Openai-Version", "2020-10-01")
	h.Set("Openai-Organization", "org-headgate-simulator")
}

// abort breaks the connection without an end of the body.
func (c *call) abort() {
	if c.rec.Status != 0 { // only this goroutine writes it
		c.rc.Flush() // what was written so far must arrive, or the break would swallow it
	}
	c.outcome = Broken
	panic(http.ErrAbortHandler)
}

// reset breaks the connection with a TCP reset, or aborts where there is no
// TCP connection of its own.
func (c *call) reset() {
	c.outcome = Broken
	if conn, _, err := c.rc.Hijack(); err == nil {
		if t, ok := conn.(*tls.Conn); ok {
			conn = t.NetConn()
		}
		if t, ok := conn.(*net.TCPConn); ok {
			t.SetLinger(0)
		}
		conn.Close()
	}
	panic(http.ErrAbortHandler)
}

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// letters makes a random id.
func letters(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}
