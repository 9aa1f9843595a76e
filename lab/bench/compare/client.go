package compare

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/lab/load"
)

// client is one connection that sends the same request again and again. The
// most throughput of a small machine is shared among the target, its upstream
// and the generator: one that cost as much as the target would measure itself.
// lab/load's makes each request anew and checks each answer whole; this one sends
// bytes that it has, and looks at no more of an answer than it must.
type client struct {
	c       net.Conn
	r       *bufio.Reader
	request []byte
	body    []byte
}

// exchangeTimeout bounds one exchange of a client.
const exchangeTimeout = 30 * time.Second

func dial(ctx context.Context, address string, request []byte) (*client, error) {
	c, err := (&net.Dialer{Timeout: exchangeTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &client{c: c, r: bufio.NewReaderSize(c, 4<<10), request: request}, nil
}

// chatRequest is a call with a prompt of some size.
func chatRequest(address, model, key string, prompt int) []byte {
	body := fmt.Sprintf(`{"model":%q,"max_tokens":256,"messages":[{"role":"user","content":"%s"}]}`, model, bytes.Repeat([]byte("notes of "), prompt/9+1)[:prompt])
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		address, key, len(body), body)
}

// do makes one exchange. The body is valid until the next one.
func (c *client) do() ([]byte, error) {
	if err := c.c.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return nil, err
	}
	if _, err := c.c.Write(c.request); err != nil {
		return nil, err
	}
	status, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	ok := bytes.HasPrefix(status, []byte("HTTP/1.1 200 "))
	said := string(bytes.TrimSpace(status))
	length := -1
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return nil, err
			}
		}
	}
	if !ok {
		return nil, errors.New(said)
	}
	c.body = c.body[:0]
	if length >= 0 {
		err := c.take(length)
		return c.body, err
	}
	for { // chunks, without trailers
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
		if err != nil {
			return nil, err
		}
		if err := c.take(int(n)); err != nil {
			return nil, err
		}
		if _, err := c.r.Discard(2); err != nil || n == 0 {
			return c.body, err
		}
	}
}

func (c *client) take(n int) error {
	at := len(c.body)
	c.body = slices.Grow(c.body, n)[:at+n]
	_, err := io.ReadFull(c.r, c.body[at:])
	return err
}

// probe checks some answers byte for byte and tells how long they are.
func probe(ctx context.Context, address string, request []byte, text string) (length int, err error) {
	c, err := dial(ctx, address, request)
	if err != nil {
		return 0, err
	}
	defer c.c.Close()
	for range 20 {
		body, err := c.do()
		if err != nil {
			return 0, err
		}
		if !bytes.Contains(body, []byte(`"`+text+`"`)) {
			return 0, fmt.Errorf("not the provider's text: %s", body)
		}
		length = len(body)
	}
	return length, nil
}

// hammer is the closed loop: connections that send as fast as they get answers.
type hammer struct {
	ok      atomic.Int64
	latency load.Histogram

	mu      sync.Mutex // guards what follows
	failed  int64
	example string
}

// run goes on until the time is over. Every answer's text is compared; latency
// counts from a time on.
func (h *hammer) run(ctx context.Context, address string, connections int, request []byte, text string, from, until time.Time) {
	want := []byte(`"` + text + `"`)
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for time.Now().Before(until) && ctx.Err() == nil {
				if err := h.connection(ctx, address, request, want, from, until); err != nil && ctx.Err() == nil {
					h.fail(err)
					time.Sleep(10 * time.Millisecond) // a target that is down must not be asked in a tight loop
				}
			}
		})
	}
	wg.Wait()
}

// connection is the exchanges of one connection.
func (h *hammer) connection(ctx context.Context, address string, request, want []byte, from, until time.Time) error {
	c, err := dial(ctx, address, request)
	if err != nil {
		return err
	}
	defer c.c.Close()
	for at := time.Now(); at.Before(until) && ctx.Err() == nil; {
		body, err := c.do()
		if err != nil {
			return err
		}
		if !bytes.Contains(body, want) {
			return fmt.Errorf("not the provider's text: %.200s", body)
		}
		now := time.Now()
		h.ok.Add(1)
		if at.After(from) {
			h.latency.Add(now.Sub(at))
		}
		at = now
	}
	return nil
}

func (h *hammer) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed++
	if h.example == "" {
		h.example = err.Error()
	}
}
