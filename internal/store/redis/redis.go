// Package redis keeps the counts of quota in a Redis that several gateways share:
// a server of version 7, or a Redis Cluster. One Lua script decides all limits of
// a call at once, by the server's clock. Only app uses it.
//
// A key is hg:{TAG}:HOW:LIMIT. The tag is what the limit is kept for, so that in a
// cluster the limits of one tenant lie on one server; HOW is bucket, window, fixed
// or held. Every key expires when it says nothing any more.
package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate-ai/headgate/internal/quota"
)

//go:embed counts.lua
var countsLua string

//go:embed beat.lua
var beatLua string

var (
	countsScript = rueidis.NewLuaScript(countsLua)
	beatScript   = rueidis.NewLuaScript(beatLua)
)

// gatewaysKey keeps which gateways there are.
const gatewaysKey = "hg:{g}:gateways"

const (
	// dialTime bounds how long one attempt to connect takes.
	dialTime = time.Second
	// silence is how long a connection may at least leave commands without an
	// answer before it is given up for a new one.
	silence = time.Second
)

// errAddress does not repeat the address, nor what the parser says of it: either
// may hold the password.
var errAddress = errors.New("the address of Redis cannot be read; write redis://USER:PASSWORD@HOST:PORT/DATABASE, " +
	"and percent-encode what is special in the password")

var (
	errConnecting = errors.New("there is no connection to Redis")
	errClosed     = errors.New("the store is closed")
	errReply      = errors.New("the answer of Redis has another form than the script's")
)

// Store is a connection to Redis. It is made in the background, so that a Redis
// that is gone does not keep a gateway from starting.
type Store struct {
	me     string // this process among the gateways
	option rueidis.ClientOption

	mu         sync.Mutex
	client     rueidis.Client
	connecting bool
	closed     bool
	failure    error // why there is no connection
	answer     int64 // the number of the last answer to a beat
}

var _ quota.Shared = (*Store)(nil)

// Open prepares a store at a redis:// or rediss:// address, for callers that wait
// for an answer as long as the timeout.
func Open(address string, timeout time.Duration) (*Store, error) {
	o, err := rueidis.ParseURL(address)
	if err != nil {
		return nil, errAddress
	}
	o.ClientName = "headgate"
	o.DisableCache = true
	// One connection carries everything in order; a few commands for each lease
	// do not fill it.
	o.PipelineMultiplex = -1
	o.ReadBufferEachConn, o.WriteBufferEachConn, o.RingScaleEachConn = 32<<10, 32<<10, 8
	if o.Dialer.Timeout == 0 {
		o.Dialer.Timeout = dialTime
	}
	if o.ConnWriteTimeout == 0 {
		o.ConnWriteTimeout = max(silence, timeout)
	}
	o.DisableRetry = true
	return &Store{me: rand.Text()[:12], option: o}, nil
}

// connection is the client, which is made by the first who asks while there is
// none. Nobody waits for it longer than their context.
func (s *Store) connection(ctx context.Context) (rueidis.Client, error) {
	for wait := time.Duration(0); ; wait = min(wait+time.Millisecond, 10*time.Millisecond) {
		s.mu.Lock()
		c, failure, closed := s.client, s.failure, s.closed
		if c == nil && !closed && !s.connecting {
			if failure == nil {
				s.connecting = true
				go s.connect()
			}
			s.failure = nil // told once; the next who asks tries again
		}
		s.mu.Unlock()
		switch {
		case closed:
			return nil, errClosed
		case c != nil:
			return c, nil
		case failure != nil:
			return nil, failure
		}
		select {
		case <-ctx.Done():
			return nil, errConnecting
		case <-time.After(wait):
		}
	}
}

func (s *Store) connect() {
	c, err := rueidis.NewClient(s.option)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connecting = false
	switch {
	case err != nil:
		s.failure = err
	case s.closed:
		c.Close()
	default:
		s.client = c
	}
}

// run runs a script. It returns when the context ends, whatever the connection is
// waiting for.
func (s *Store) run(ctx context.Context, script *rueidis.Lua, keys, args []string) (m rueidis.RedisMessage, err error) {
	c, err := s.connection(ctx)
	if err != nil {
		return m, err
	}
	done := make(chan rueidis.RedisResult, 1)
	go func() { done <- script.Exec(ctx, c, keys, args) }()
	select {
	case r := <-done:
		return r.ToMessage()
	case <-ctx.Done():
		return m, ctx.Err()
	}
}

// Beat says that this gateway is alive, or only that it is there, and counts the
// others.
func (s *Store) Beat(ctx context.Context, alive bool) (g quota.Gateways, err error) {
	verb := "alone"
	if alive {
		verb = "alive"
	}
	n, err := s.beat(ctx, verb)
	if err != nil {
		return g, err
	}
	s.mu.Lock()
	s.answer = n[3]
	s.mu.Unlock()
	return quota.Gateways{Live: int(n[0]), Missing: int(n[1]), Heard: n[2] == 1}, nil
}

// beat runs the script of beats: alive, alone or leaves.
func (s *Store) beat(ctx context.Context, verb string) ([]int64, error) {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	m, err := s.run(ctx, beatScript, []string{gatewaysKey}, []string{
		s.me, verb, strconv.FormatInt(answer, 10), micros(quota.AnswerAge), micros(quota.SilentAge),
	})
	if err != nil {
		return nil, err
	}
	n, err := m.AsIntSlice()
	if err != nil || len(n) != 4 {
		return nil, errReply
	}
	return n, nil
}

// leaveTime bounds how long a gateway tries to take leave.
const leaveTime = 200 * time.Millisecond

// Close takes leave of the others, and closes the connection.
func (s *Store) Close() error {
	s.mu.Lock()
	c := s.client
	s.mu.Unlock()
	var err error
	if c != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
		defer cancel()
		_, err = s.beat(ctx, "leaves")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil && !s.closed {
		go s.client.Close() // it waits for a server that may not answer
	}
	s.closed = true
	return err
}
