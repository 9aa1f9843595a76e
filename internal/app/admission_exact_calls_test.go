package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

// ending is how a call of the random load goes.
type ending int

const (
	wholeAnswer  ending = iota
	wholeStream         // with the usage at its end
	refusal             // the provider answers with an error status
	noAnswer            // the provider breaks the connection
	brokenStream        // the provider breaks the connection after some tokens
	failedStream        // the provider sends an error event after some tokens
	leftUnheard         // the client leaves before the provider answers
	leftStream          // the client leaves once it has read some tokens; no more came
	leftAnyTime         // the client leaves a whole answer whenever it likes
	leftFlowing         // the client leaves while tokens come
	endings
)

func (e ending) String() string {
	return []string{"a whole answer", "a whole stream", "a refusal", "no answer", "a broken stream", "a failed stream",
		"a client that left unheard", "a client that left a stream", "a client that left at any moment", "a client that left while tokens came"}[e]
}

func (e ending) streams() bool {
	return e == wholeStream || e == brokenStream || e == failedStream || e == leftStream || e == leftFlowing
}

// exactCall is one call: what is to happen, and what the provider and the client
// saw of it.
type exactCall struct {
	tenant string
	model  string
	ending ending
	usage  llm.Usage // what the provider says of a whole answer
	sends  int       // tokens of a stream that does not end as it should
	bound  bool      // max_tokens is set

	arrived  chan struct{} // closed when the provider has it
	arrivals atomic.Int64
	sent     atomic.Int64 // tokens that the provider has begun to write
	status   int          // that the client got, 0 if it got none
	got      int          // tokens that the client has read
	stopped  bool         // the gateway ended the stream because of a budget
	whole    bool         // the client has all of it
}

// exactPrompt is the tokens of a prompt of n words by the published rules: the
// words, the role, a message's frame of three, and three for the answer's begin.
func exactPrompt(words int) int64 { return int64(words) + 7 }

func randomCall(r *rand.Rand) *exactCall {
	// The first tenants call most, and every second one calls the dear model.
	tenant := min(r.IntN(6), r.IntN(6))
	c := &exactCall{
		tenant: fmt.Sprint("t", tenant), model: []string{"gpt-4o", "gpt-4o-mini"}[tenant%2],
		ending: ending(r.IntN(int(endings))), sends: 1 + r.IntN(30), arrived: make(chan struct{}),
	}
	if r.IntN(2) == 0 {
		c.ending = ending(r.IntN(2)) // as most calls go
	}
	u := llm.Usage{Input: exactPrompt(1 + r.IntN(40)), Output: 1 + r.Int64N(60)}
	u.Cached, u.Reasoning = r.Int64N(u.Input+1), r.Int64N(u.Output+1)
	c.bound = !c.ending.streams() || r.IntN(4) > 0
	if !c.bound && r.IntN(8) == 0 {
		u.Output = 800 // far beyond what is expected, so that it is this one that a budget ends in
	}
	c.usage = u
	return c
}

func (c *exactCall) body(i int) string {
	words := "hello" + strings.Repeat(" hello", int(c.usage.Input-exactPrompt(1)))
	more := ""
	if c.bound {
		more = fmt.Sprintf(`,"max_tokens":%d`, max(c.usage.Output, int64(c.sends)))
	}
	if c.ending.streams() {
		more += `,"stream":true,"stream_options":{"include_usage":true}`
	}
	return fmt.Sprintf(`{"model":%q,"user":"%d","messages":[{"role":"user","content":%q}]%s}`, c.model, i, words, more)
}

// exactProvider is a provider that does what the calls say.
type exactProvider []*exactCall

func (p exactProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct{ User string }
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		return // the client has left
	}
	_, _ = io.Copy(io.Discard, r.Body) // net/http then notices when the client leaves
	i, _ := strconv.Atoi(ask.User)
	c := p[i]
	if c.arrivals.Add(1) == 1 {
		close(c.arrived)
	}
	if !c.ending.streams() {
		c.answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	n := c.sends
	if c.ending == wholeStream {
		n = int(c.usage.Output)
	} else if c.ending == leftFlowing {
		n = 1000
	}
	for range n {
		c.sent.Add(1)
		if _, err := io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":" hi"},"finish_reason":null}]}`+"\n\n"); err != nil || r.Context().Err() != nil {
			return
		}
		if c.ending == leftFlowing {
			_ = http.NewResponseController(w).Flush()
		}
	}
	_ = http.NewResponseController(w).Flush()
	switch c.ending {
	case wholeStream:
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":%s}\n\ndata: [DONE]\n\n", exactUsage(c.usage))
	case brokenStream:
		panic(http.ErrAbortHandler)
	case failedStream:
		_, _ = io.WriteString(w, `data: {"error":{"message":"Oh.","type":"server_error","code":null}}`+"\n\n")
	default:
		<-r.Context().Done()
	}
}

// answer answers in one piece, if at all.
func (c *exactCall) answer(w http.ResponseWriter, r *http.Request) {
	switch c.ending {
	case refusal:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader([]int{400, 429, 500, 503}[c.sends%4])
		_, _ = io.WriteString(w, `{"error":{"message":"No.","type":"server_error","code":null}}`)
		return
	case noAnswer:
		panic(http.ErrAbortHandler)
	case leftUnheard:
		<-r.Context().Done()
		return
	case leftAnyTime:
		time.Sleep(time.Duration(c.sends) * 50 * time.Microsecond)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":%s}`, exactUsage(c.usage))
}

func exactUsage(u llm.Usage) string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		u.Input, u.Output, u.Input+u.Output, u.Cached, u.Reasoning)
}

// call makes the call as its client.
func (c *exactCall) call(g *Gateway, i int) {
	ctx, leave := context.WithCancel(g.t.Context())
	defer leave()
	switch c.ending {
	case leftUnheard:
		go func() {
			select {
			case <-c.arrived:
				leave()
			case <-ctx.Done(): // it was refused
			}
		}()
	case leftAnyTime:
		defer time.AfterFunc(time.Duration(c.usage.Output)*50*time.Microsecond, leave).Stop()
	}
	r := g.request("POST", chatPath, strings.NewReader(c.body(i)), "Authorization", "Bearer sk-exact-"+c.tenant, "X-Request-Id", fmt.Sprint("exact-", i))
	res, err := g.Client.Do(r.WithContext(ctx))
	if err != nil {
		return
	}
	defer res.Body.Close()
	c.status = res.StatusCode
	if !c.ending.streams() || c.status != http.StatusOK {
		_, err = io.Copy(io.Discard, res.Body)
		c.whole = err == nil
		return
	}
	c.read(&live{Response: res, r: bufio.NewReader(res.Body)})
}

// read reads a stream, or as much of it as the client wants.
func (c *exactCall) read(l *live) {
	for c.ending != leftStream && c.ending != leftFlowing || c.got < c.sends {
		data, err := l.next()
		switch {
		case err != nil:
			return
		case data == "[DONE]":
			c.whole = true
		case strings.Contains(data, `"content":" hi"`):
			c.got++
		case strings.Contains(data, `"finish_reason":"length"`):
			c.stopped = true
		}
	}
}
