package experiment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/internal/store/redis"
	"github.com/headgate-ai/headgate/lab/chaos"
)

var redisLatency = &Experiment{
	Name:  "redis-latency",
	Row:   "O6",
	Title: "a limit kept in Redis while Redis takes 2.4 s: waited for, or kept by each gateway's share",
	Claim: "Redis' P99 rises to 2.4 s: does the limiter keep its precision? (No figures for the limiter itself.)",
	Wrong: "a store that is asked for every call, and waited for as long as its client's default, makes the limiter the slowest part of every request.",
	Note: "two gateways, one real Redis behind a proxy each, limit 200/s with a burst of 200, asked by four callers at each gateway about every 2 ms. " +
		"Redis is slow for 6 s (quick: 5) of the run; rate is what both let through per second of it. In the first second and a half of it each has but a lease, " +
		"until the other would have noticed if only one had lost Redis. back is what they let through in the second after it is over. " +
		"It needs a redis-server, as in the Debian package of that name.",
	Arms:    []Arm{{"wait", "every decision waits for Redis"}, {"share", "leases, 50 ms, then each gateway's share"}},
	Metrics: []Metric{{"p99", "ms", "P99 of a decision while Redis is slow"}, {"rate", "/s", "let through while Redis is slow"}, {"back", "/s", "let through in the second after"}},
	Expect: []Expectation{
		{"waiting stalls for ≥ 2.4 s", func(m map[string]Sample) bool { return m["wait"]["p99"] >= 2400 }},
		{"shared, a decision takes < 60 ms at P99", func(m map[string]Sample) bool { return m["share"]["p99"] < 60 }},
		{"shared, the rate stays within 10 % of the limit", func(m map[string]Sample) bool { return m["share"]["rate"] >= 180 && m["share"]["rate"] <= 220 }},
		{"no burst when Redis is back", func(m map[string]Sample) bool { return m["share"]["back"] <= 260 }},
	},
	Rounds: 3, QuickRounds: 1,
	Run: runRedisLatency,
}

func runRedisLatency(ctx context.Context, arm string, r Round) (Sample, error) {
	address, stop, err := startRedis(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	x := &outage{}
	defer x.close()
	for range 2 {
		if err := x.join(address, arm); err != nil {
			return nil, err
		}
	}
	slow := 6 * time.Second
	if r.Quick {
		slow = 5 * time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pause(ctx, time.Second) // until the gateways know of each other
	x.ask(ctx)
	pause(ctx, 1500*time.Millisecond) // until the burst is used up
	x.set(chaos.Fault{Latency: 2400 * time.Millisecond})
	begun := time.Now()
	pause(ctx, slow)
	ended := time.Now()
	x.set(chaos.Fault{})
	pause(ctx, 1200*time.Millisecond)
	cancel()
	x.callers.Wait()
	return Sample{
		"p99":  ms(x.p99(begun, ended)),
		"rate": x.between(begun, ended) / slow.Seconds(),
		"back": x.between(ended, ended.Add(time.Second)),
	}, nil
}

// outage is two gateways before a Redis that gets slow.
type outage struct {
	gateways []*sharing
	callers  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	admitted []time.Time
	begun    []time.Time
	took     []time.Duration // of the decision that began then
}

// sharing is a gateway's limits and the way to Redis.
type sharing struct {
	proxy *chaos.Proxy
	room  *quota.Room
	plan  quota.Plan
}

func (x *outage) join(address, arm string) error {
	proxy, err := chaos.New(address)
	if err != nil {
		return err
	}
	cfg := quota.StoreConfig{Kind: quota.StoreRedis, Lease: 100, Timeout: setting.Duration(50 * time.Millisecond)}
	if arm == "wait" {
		cfg.Lease, cfg.Timeout = 1, setting.Duration(10*time.Second)
	}
	store, err := redis.Open("redis://"+proxy.Address()+"/0", cfg.Timeout.Std())
	if err != nil {
		return errors.Join(err, proxy.Close())
	}
	g := &sharing{proxy: proxy, room: quota.New()}
	x.gateways = append(x.gateways, g)
	g.room.Share(store, cfg, func(error) {})
	var p setting.Problems
	rules := &quota.Config{Rules: []quota.RuleConfig{{
		Name: "limit", Per: []string{"tenant"}, Requests: quota.RateConfig{Rate: setting.Rate{Count: 200, Period: time.Second}, Burst: 200},
	}}}
	if g.plan = g.room.Compile(rules, &p); len(p) > 0 {
		return fmt.Errorf("%s: %s", p[0].Path, p[0].Message)
	}
	return nil
}

// ask has four callers at each gateway.
func (x *outage) ask(ctx context.Context) {
	for _, g := range x.gateways {
		for range 4 {
			x.callers.Go(func() {
				for ctx.Err() == nil {
					x.one(g)
					pause(ctx, 2*time.Millisecond)
				}
			})
		}
	}
}

func (x *outage) one(g *sharing) {
	begun := time.Now()
	h, err := g.room.Reserve(&g.plan, &quota.Subject{Principal: llm.Principal{Key: "k", Tenant: "t"}}, quota.Demand{}, begun)
	now := time.Now()
	x.mu.Lock()
	x.begun, x.took = append(x.begun, begun), append(x.took, now.Sub(begun))
	if err == nil {
		x.admitted = append(x.admitted, now)
	}
	x.mu.Unlock()
	if err == nil {
		h.Settle(quota.Settlement{}, now)
	}
}

func (x *outage) set(f chaos.Fault) {
	for _, g := range x.gateways {
		g.proxy.Set(f)
	}
}

// p99 is of the decisions that began in a time.
func (x *outage) p99(from, to time.Time) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	var took []time.Duration
	for i, at := range x.begun {
		if at.After(from) && !at.After(to) {
			took = append(took, x.took[i])
		}
	}
	return quantile(took, .99)
}

// between is how many were let through in a time.
func (x *outage) between(from, to time.Time) (n float64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, at := range x.admitted {
		if at.After(from) && !at.After(to) {
			n++
		}
	}
	return n
}

func (x *outage) close() {
	for _, g := range x.gateways {
		_ = g.room.Close()
		_ = g.proxy.Close()
	}
}

// startRedis starts a server of its own, without persistence.
func startRedis(ctx context.Context) (address string, stop func(), err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, errors.New("there is no redis-server; install the Debian package redis-server to run this experiment")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	dir, err := os.MkdirTemp("", "headgate-experiment-")
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no")
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	if err := cmd.Start(); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, 20*time.Millisecond) {
		if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			return address, stop, c.Close()
		}
	}
	stop()
	return "", nil, errors.New("the redis-server that was started does not answer")
}
