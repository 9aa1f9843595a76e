package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/anthropic"
	"github.com/headgate-ai/headgate/internal/wire/openai"
	"github.com/headgate-ai/headgate/internal/wire/sse"
)

// dialect is both halves of one, as the real ones are.
type dialect interface {
	wire.Inbound
	wire.Outbound
}

// conversation is one golden stream: what a provider sends.
type conversation struct {
	name string
	d    dialect
	op   llm.Operation
	text string
}

const (
	chatHead = `"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m"`
	role     = `data: {` + chatHead + `,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	stop     = `data: {` + chatHead + `,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usage    = `data: {` + chatHead + `,"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}` + "\n\n"
	done     = "data: [DONE]\n\n"
)

func token(text string) string {
	return `data: {` + chatHead + `,"choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null}]}` + "\n\n"
}

var chat = conversation{"chat", openai.Dialect{}, llm.Chat, role + token("Hé") + token("llo") + token(" ✓") + stop + done}

var messages = conversation{"messages", anthropic.Dialect{}, llm.Chat, "" +
	"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n" +
	"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
	"event: ping\ndata: {\"type\": \"ping\"}\n\n" +
	"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hé\"}}\n\n" +
	"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"llo\"}}\n\n" +
	"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
	"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":3}}\n\n" +
	"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"}

var responses = conversation{"responses", openai.Dialect{}, llm.Responses, "" +
	typed("response.created", 0, `"response":{"id":"resp_1","object":"response","status":"in_progress","incomplete_details":null,"output":[],"usage":null}`) +
	typed("response.output_item.added", 1, `"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}`) +
	typed("response.content_part.added", 2, `"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":""}`) +
	typed("response.output_text.delta", 3, `"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hé"`) +
	typed("response.output_text.delta", 4, `"item_id":"msg_1","output_index":0,"content_index":0,"delta":"llo"`) +
	typed("response.output_text.done", 5, `"item_id":"msg_1","output_index":0,"content_index":0,"text":"Héllo"`) +
	typed("response.content_part.done", 6, `"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"Héllo"}`) +
	typed("response.output_item.done", 7, `"output_index":0,"item":{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"Héllo"}]}`) +
	typed("response.completed", 8, `"response":{"id":"resp_1","object":"response","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":3,"total_tokens":8}}`)}

func typed(kind string, seq int, more string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", kind, kind, seq, more)
}

var conversations = []conversation{chat, messages, responses}

// client is a client in memory. It keeps what was flushed apart from what was
// only written.
type client struct {
	mu       sync.Mutex
	b        bytes.Buffer
	flushed  int
	writes   int
	flushes  int
	deadline time.Time
	gone     error         // what writes fail with
	slow     time.Duration // what every write takes
	stuck    chan struct{} // not nil: writes wait for it or for the deadline
	onFlush  func(fresh []byte)
}

func (c *client) Write(p []byte) (int, error) {
	c.mu.Lock()
	gone, slow, stuck := c.gone, c.slow, c.stuck
	c.mu.Unlock()
	time.Sleep(slow)
	if stuck != nil {
		for past := false; !past; {
			select {
			case <-stuck:
				past = true
			case <-time.After(time.Millisecond):
				c.mu.Lock()
				late := !c.deadline.IsZero() && !time.Now().Before(c.deadline)
				c.mu.Unlock()
				if late {
					return 0, errors.New("i/o timeout")
				}
			}
		}
	}
	if gone != nil {
		return 0, gone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	return c.b.Write(p)
}

func (c *client) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushes++
	if fresh := c.b.Bytes()[c.flushed:]; c.onFlush != nil && len(fresh) > 0 {
		c.onFlush(fresh)
	}
	c.flushed = c.b.Len()
	return c.gone
}

func (c *client) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *client) Begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Len() > 0
}

// got is what has been flushed.
func (c *client) got() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.b.Bytes()[:c.flushed])
}

// provider is the upstream: what it sends in pieces, and what it was told.
type provider struct {
	io.ReadCloser

	mu      sync.Mutex
	firsts  int
	aborted bool
	cause   error
}

func (p *provider) FirstToken() { p.firsts++ }
func (p *provider) Abort(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aborted = true
	if p.cause == nil {
		p.cause = cause
	}
	_ = p.Close()
}

func (p *provider) Why(_ context.Context, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return p.cause
	}
	return fault.Wrap(fault.UpstreamTruncated, "test", err)
}

// pieces gives text in reads of at most size bytes, and then err.
type pieces struct {
	text string
	size int
	err  error
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, p.err
	}
	n := copy(b[:min(len(b), p.size)], p.text)
	p.text = p.text[n:]
	return n, nil
}

func (*pieces) Close() error { return nil }

// cuts gives text in two reads, divided at at.
func cuts(text string, at int) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(text[:at]), strings.NewReader(text[at:])))
}

// result is what came of a stream.
type result struct {
	Receipt
	err      error
	got      string
	client   *client
	provider *provider
}

// told is what the client has in the end: an error that it was not told yet
// is told as the hallway does.
func (r *result) told(v conversation) string {
	if _, passed := Passed(r.err); r.err == nil || passed {
		return r.got
	}
	return r.got + string(v.d.FaultEvent(nil, v.op, fault.Of(r.err), "req_1"))
}

type change func(*Config, *Events)

// relay carries a body to a client in memory.
func relay(t testing.TB, v conversation, body io.ReadCloser, changes ...change) *result {
	t.Helper()
	r := &result{client: &client{}, provider: &provider{ReadCloser: body}}
	c := Default()
	c.Retry = 0
	e := &Events{
		Body: body, From: r.provider, To: r.client, In: v.d, Out: v.d, Op: v.op, Tap: v.d.Tap(v.op),
		OnFirst: func(time.Time) {},
	}
	for _, f := range changes {
		f(&c, e)
	}
	r.client = e.To.(*client)
	p := c.Compile()
	r.Receipt, r.err = Copy(context.Background(), &p, e)
	r.got = r.client.got()
	if r.err == nil && len(r.got) != r.client.b.Len() {
		t.Errorf("%d bytes were left unflushed", r.client.b.Len()-len(r.got))
	}
	return r
}

// parse is the stream as a client of the standard sees it.
func parse(t testing.TB, text string) (names, datas []string) {
	t.Helper()
	var s sse.Scanner
	for b := []byte(text); ; {
		ev, ok := s.Next(b)
		if !ok {
			return names, datas
		}
		if ev.HasData {
			names, datas = append(names, string(ev.Name)), append(datas, string(ev.Data))
		}
		b = b[ev.Size:]
	}
}

func kind(err error) fault.Kind {
	if err == nil {
		return 255
	}
	if f, ok := Passed(err); ok {
		return f.Kind
	}
	return fault.KindOf(err)
}

func eol(text, with string) string { return strings.ReplaceAll(text, "\n", with) }
