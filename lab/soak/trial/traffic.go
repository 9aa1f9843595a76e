package trial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/lab/load"
)

// most is how many calls of one kind are on their way at most. A machine that is
// busy with other things makes them pile up, and connections with them.
const most = 64

// calls is a load of one kind, with package load's checks.
func (s *stand) calls(model string, stream bool, change func(*load.Config)) load.Config {
	c := load.Default()
	c.URL, c.Key, c.Model, c.Stream = s.api, key, model, stream
	c.MaxTokens, c.Requests, c.InFlight = 1<<20, 100_000_000, most
	if strings.HasPrefix(model, "claude") {
		c.Dialect = load.Anthropic
	}
	change(&c)
	return c
}

// fine is what a load's report says against the gateway; nil if nothing.
func fine(r *load.Report) error {
	if r.Failed == 0 && r.Tokens.Lost == 0 && r.Tokens.Duplicate == 0 && r.Tokens.OutOfOrder == 0 && r.OK > 0 {
		return nil
	}
	return fmt.Errorf("%s, stream %v: %d ok, %d failed %v, tokens %+v; for example %v", r.Model, r.Stream, r.OK, r.Failed, r.Errors, r.Tokens, r.Examples)
}

// capacity is how many requests a second a kind of load reaches with so many
// connections.
func (s *stand) capacity(ctx context.Context, model string, stream bool, connections int) (float64, error) {
	r, err := load.Run(ctx, s.calls(model, stream, func(c *load.Config) {
		c.Duration, c.Warmup, c.Connections = 4*time.Second, time.Second, connections
	}))
	if err != nil {
		return 0, err
	}
	return r.RequestsPerSecond, fine(r)
}

// crowd is everything that goes on during a soak.
type crowd struct {
	*stand
	wg sync.WaitGroup

	mu       sync.Mutex
	problems []error

	requests, tokens, aborted, slow, stalled, refused, reloads, scrapes atomic.Int64
}

func (c *crowd) problem(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.problems) < 20 {
		c.problems = append(c.problems, err)
	}
}

// steady runs a load until it is over.
func (c *crowd) steady(ctx context.Context, cfg load.Config) {
	c.wg.Go(func() {
		r, err := load.Run(ctx, cfg)
		if err == nil {
			c.requests.Add(r.OK)
			c.tokens.Add(r.Tokens.Received)
			err = fine(r)
		}
		if err != nil {
			c.problem(err)
		}
	})
}

// again does something every so often until the context ends.
func (c *crowd) again(ctx context.Context, every time.Duration, do func(n int) error) {
	c.wg.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(every/2 + rand.N(every)):
			}
			if err := do(n); err != nil && ctx.Err() == nil {
				c.problem(err)
			}
		}
	})
}

// ask begins a streamed call of its own connection.
func (s *stand) ask(ctx context.Context, model string) (*http.Response, func(), error) {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":1000000,"messages":[{"role":"user","content":"hi"}]}`, model)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.api+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	t := &http.Transport{DisableCompression: true}
	res, err := t.RoundTrip(r)
	if err != nil {
		t.CloseIdleConnections()
		return nil, nil, err
	}
	return res, func() { _ = res.Body.Close(); t.CloseIdleConnections() }, nil
}

// abort leaves a stream at some moment of it.
func (c *crowd) abort(int) error {
	ctx, cancel := context.WithTimeout(context.Background(), rand.N(200*time.Millisecond))
	defer cancel()
	res, end, err := c.ask(ctx, "own-small+tokens=100000")
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		end()
	}
	c.aborted.Add(1)
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("a client that leaves: %w", err)
	}
	return nil
}

// dawdle reads a stream more slowly than it comes, to its end.
func (c *crowd) dawdle(int) error {
	const tokens = 2000
	res, end, err := c.ask(context.Background(), fmt.Sprintf("std-small+tokens=%d+bytes-per-token=1000+token-gap=0s", tokens))
	if err != nil {
		return err
	}
	defer end()
	c.slow.Add(1)
	all, err := readStream(slowly{res.Body})
	if err != nil {
		return fmt.Errorf("a slow reader: %w", err)
	}
	return all.whole(tokens)
}

type slowly struct{ io.Reader }

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	return s.Reader.Read(p)
}

// stall stops reading a stream, which the gateway must end.
func (c *crowd) stall(int) error {
	res, end, err := c.ask(context.Background(), "own-small+tokens=1000000+bytes-per-token=4000+token-gap=0s")
	if err != nil {
		return err
	}
	defer end()
	c.stalled.Add(1)
	time.Sleep(11 * time.Second) // beyond the write timeout
	all, err := readStream(res.Body)
	if err == nil && all.done {
		return errors.New("a stalled reader got a whole stream")
	}
	return nil
}

// mistake makes calls that are refused.
func (c *crowd) mistake(n int) error {
	credential, want := "Bearer "+key, http.StatusNotFound
	if n%2 == 0 {
		credential, want = "Bearer nobody's", http.StatusUnauthorized
	}
	r, err := http.NewRequest(http.MethodPost, c.api+"/v1/chat/completions", strings.NewReader(`{"model":"unknown","messages":[]}`))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", credential)
	res, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	c.refused.Add(1)
	if res.StatusCode != want {
		return fmt.Errorf("a wrong call is answered with %d, not %d", res.StatusCode, want)
	}
	return nil
}

// reload has the configuration loaded again: by SIGHUP with the log rotated, by
// a changed file, and now and then a broken one.
func (c *crowd) reload(n int) error {
	c.reloads.Add(1)
	switch n % 4 {
	case 0:
		return c.rewrite(n, true)
	case 2:
		return c.hangUp()
	}
	return c.rewrite(n, false)
}

// scrape reads what operators read.
func (c *crowd) scrape(n int) error {
	c.scrapes.Add(1)
	_, err := c.get([]string{"/metrics", "/admin/v1/requests", "/admin/v1/usage", "/admin/v1/config", "/readyz"}[n%5])
	return err
}

var stampForm = regexp.MustCompile(`~(\d+)\.\d+~`)

// seen is what came of a stream: its tokens, in their order, and its end.
type seen struct {
	tokens int
	done   bool
	fault  string
	wrong  string
}

// readStream reads a chat stream to its end.
func readStream(r io.Reader) (v seen, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 32<<10), 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			v.done = true
		case strings.HasPrefix(data, `{"error"`):
			v.fault = data
		default:
			for _, m := range stampForm.FindAllStringSubmatch(data, -1) {
				if n, _ := strconv.Atoi(m[1]); n != v.tokens {
					v.wrong = fmt.Sprintf("token %d where %d was due", n, v.tokens)
				}
				v.tokens++
			}
		}
	}
	return v, lines.Err()
}

// whole is whether it was all there.
func (v seen) whole(tokens int) error {
	if v.done && v.fault == "" && v.wrong == "" && v.tokens == tokens {
		return nil
	}
	return fmt.Errorf("a stream of %d tokens is not whole: %+v", tokens, v)
}
