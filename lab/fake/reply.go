package fake

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
)

// reply sends an answer in one piece when it is due. tokens is how many it
// holds.
func (c *call) reply(contentType string, body []byte, tokens int) {
	for range tokens - 1 {
		c.next = c.next.Add(c.cfg.TokenGap.Duration(c.luck))
	}
	if !c.pause() {
		return
	}
	// An answer in one piece has one place for a fault: before it.
	if c.cfg.StallAfter > 0 || c.cfg.Fault == faultStall {
		if !c.stall() {
			return
		}
	}
	switch c.cfg.Fault {
	case faultReset:
		c.reset()
	case faultAbort:
		c.abort()
	}
	c.w.Header().Set("Content-Type", contentType)
	c.sendBody(body)
	c.tokens = tokens
	c.s.sent(tokens)
}

// sendBody writes a body, or what the fault makes of it.
func (c *call) sendBody(body []byte) {
	whole := body
	length := func(n int) { c.w.Header().Set("Content-Length", strconv.Itoa(n)) }
	switch c.cfg.Fault {
	case faultHalf:
		body = body[:len(body)/2]
		length(len(body))
	case faultMalformed:
		body = append(bytes.Clone(body[:max(0, len(body)-2)]), ",,"...)
	case faultBOM:
		body = append([]byte("\ufeff"), body...)
	case faultGzip:
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		z.Write(body)
		z.Close()
		body = packed.Bytes()
		c.w.Header().Set("Content-Encoding", "gzip")
		length(len(body))
	case faultShort:
		length(len(body) + 100)
		c.outcome = Broken
	case faultCutJSON:
		body = body[:len(body)*2/3]
	case faultCutUTF8:
		body = body[:insideRune(body, 0)]
	default:
		length(len(body))
	}
	c.header(http.StatusOK)
	if _, err := c.w.Write(body); err != nil && c.cfg.Fault != faultShort {
		c.outcome = Cancelled
	}
	if c.cfg.Fault == faultCutJSON || c.cfg.Fault == faultCutUTF8 {
		c.abort()
	}
	if len(body) < len(whole) && c.cfg.Fault == faultHalf {
		c.outcome = Broken
	}
}

// replyJSON sends a value in one piece.
func (c *call) replyJSON(v any, tokens int) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // vendors do not escape it either
	if err := enc.Encode(v); err != nil {
		c.fail(http.StatusInternalServerError, "The simulator cannot encode its answer: "+err.Error(), "", "")
		return
	}
	c.reply("application/json", bytes.TrimSuffix(b.Bytes(), []byte("\n")), tokens)
}

// rejected answers 400 if a field of the request is wrong.
func (c *call) rejected() bool {
	if c.form.wrong == "" {
		return false
	}
	c.rejectForm()
	return true
}

// faultBefore answers with the faults that replace the answer. It is false if
// the answer goes on.
func (c *call) faultBefore() bool {
	h := c.w.Header()
	switch c.cfg.Fault {
	case faultHTML:
		page := "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n</body>\r\n</html>\r\n"
		h.Set("Content-Type", "text/html")
		c.outcome = Refused
		c.header(http.StatusBadGateway)
		c.w.Write([]byte(page))
	case faultEmpty:
		if string(c.form.fields["stream"]) == "true" {
			h.Set("Content-Type", "text/event-stream; charset=utf-8")
		}
		c.header(http.StatusOK)
	case faultErrorBody:
		c.outcome = Refused
		body := c.errorBody(http.StatusInternalServerError, "", "", "")
		h.Set("Content-Length", strconv.Itoa(len(body)))
		c.header(http.StatusOK)
		c.w.Write(body)
	case faultBadLimits:
		h.Set("Retry-After", "soon")
		h.Set("Retry-After-Ms", "-1")
		for _, name := range []string{"x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests",
			"anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"} {
			h.Set(name, "NaN")
		}
		c.fail(http.StatusTooManyRequests, "", "", "")
	default:
		return false
	}
	return true
}
