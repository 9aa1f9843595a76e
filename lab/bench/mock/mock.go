// Package mock is the provider that all targets of a comparison stand in front
// of. It speaks just enough HTTP/1.1, straight over TCP, that an answer costs it
// a few microseconds: what a comparison measures must not be its own upstream.
//
// Who should import this: lab/bench/compare, which runs it as a process.
package mock

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Model is the name of the model at the provider.
const Model = "mock-model-2026-11-29"

// Config is how every request is answered.
type Config struct {
	// Stream answers with a stream of events, else with one piece.
	Stream bool
	// Tokens is the length of an answer, TokenBytes the size of each one's text.
	Tokens, TokenBytes int
	// Gap is the time from one token of a stream to the next.
	Gap time.Duration
}

// filler is what texts are made of; it holds nothing that JSON would escape.
const filler = "every token comes once and in order, while the client reads at its own pace; "

func text(n int) string { return strings.Repeat(filler, n/len(filler)+1)[:n] }

// Text is the text of an answer in one piece.
func (c Config) Text() string { return "~mock~ " + text(c.Tokens*c.TokenBytes) }

// promptTokens is what every answer reports; to count would be a cost.
const promptTokens = 256

func (c Config) usage() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, promptTokens, c.Tokens, promptTokens+c.Tokens)
}

// Server answers. All answers in one piece are the same bytes, made once.
type Server struct {
	cfg   Config
	whole []byte
	// A token's event is before, the stamp, filler up to the token's size, after.
	opening, before, after, filler, closing string
	streams                                 atomic.Uint64
}

// New makes a server.
func New(c Config) *Server {
	s := &Server{cfg: c, filler: text(c.TokenBytes)}
	body := fmt.Sprintf(`{"id":"chatcmpl-mock","object":"chat.completion","created":1700000000,"model":%q,"choices":[{"index":0,`+
		`"message":{"role":"assistant","content":%q,"refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":%s,"system_fingerprint":"fp_mock"}`,
		Model, c.Text(), c.usage())
	s.whole = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	event := fmt.Sprintf(`data: {"id":"chatcmpl-mock","object":"chat.completion.chunk","created":1700000000,"model":%q,"system_fingerprint":"fp_mock","choices":[`, Model)
	s.opening = event + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	s.before = event + `{"index":0,"delta":{"content":"`
	s.after = `"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	s.closing = event + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}` + "\n\n" +
		event + `],"usage":` + c.usage() + "}\n\ndata: [DONE]\n\n"
	return s
}

// Serve answers until the listener is closed. Where descriptors run out it
// waits for some to come free; the caller sees the failure as a slow target.
func (s *Server) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go func() {
			defer c.Close()
			k := conn{server: s, c: c, r: bufio.NewReaderSize(c, 4<<10)}
			for k.exchange() == nil {
			}
		}()
	}
}

// conn is one connection and what it uses again.
type conn struct {
	server *Server
	c      net.Conn
	r      *bufio.Reader
	out    []byte
}

// path is the one call that is answered.
var path = []byte("/chat/completions ")

// exchange reads a request and answers it. Its body is counted and not looked
// at.
func (k *conn) exchange() error {
	line, err := k.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	known, length := bytes.Contains(line, path), 0
	for {
		if line, err = k.r.ReadSlice('\n'); err != nil {
			return err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			length = -1
		}
	}
	if length >= 0 {
		err = k.discard(length)
	} else {
		err = k.discardChunks()
	}
	switch {
	case err != nil:
		return err
	case !known:
		_, err = io.WriteString(k.c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		return err
	case k.server.cfg.Stream:
		return k.stream()
	}
	_, err = k.c.Write(k.server.whole)
	return err
}

// bodies are what large requests are read into: in small parts, reading them
// would hold up who sends.
var bodies = sync.Pool{New: func() any { return new([64 << 10]byte) }}

func (k *conn) discard(n int) error {
	had, err := k.r.Discard(min(n, k.r.Buffered()))
	if n -= had; n == 0 || err != nil {
		return err
	}
	b := bodies.Get().(*[64 << 10]byte)
	defer bodies.Put(b)
	for n > 0 && err == nil {
		had, err = k.c.Read(b[:min(n, len(b))])
		n -= had
	}
	return err
}

func (k *conn) discardChunks() error {
	for {
		line, err := k.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(";"))
		n, err := strconv.ParseUint(string(size), 16, 31)
		if err != nil {
			return err
		}
		if _, err := k.r.Discard(int(n) + 2); err != nil || n == 0 {
			return err
		}
	}
}

// stream writes each token when it is due, with one write. Streams that were
// asked for together do not send together: the first token comes after a part
// of the gap that differs from stream to stream (the golden section spreads any
// number of them evenly). Without it the added delay would be that of a burst.
func (k *conn) stream() error {
	s := k.server
	_, part := math.Modf(float64(s.streams.Add(1)) * math.Phi)
	due := time.Now().Add(time.Duration(part * float64(s.cfg.Gap)))
	k.out = append(k.out[:0], "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"...)
	k.chunk(s.opening)
	for seq := range s.cfg.Tokens {
		time.Sleep(time.Until(due))
		due = due.Add(s.cfg.Gap)
		var room [48]byte
		stamp := strconv.AppendInt(append(room[:0], '~'), int64(seq), 10)
		stamp = strconv.AppendInt(append(stamp, '.'), time.Now().UnixNano(), 10)
		stamp = append(stamp, '~')
		k.chunk(s.before, string(stamp), s.filler[min(len(stamp), len(s.filler)):], s.after)
		if _, err := k.c.Write(k.out); err != nil {
			return err
		}
		k.out = k.out[:0]
	}
	k.chunk(s.closing)
	k.out = append(k.out, "0\r\n\r\n"...)
	_, err := k.c.Write(k.out)
	return err
}

// chunk frames its parts as one chunk.
func (k *conn) chunk(parts ...string) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	k.out = append(strconv.AppendInt(k.out, int64(n), 16), "\r\n"...)
	for _, p := range parts {
		k.out = append(k.out, p...)
	}
	k.out = append(k.out, "\r\n"...)
}
