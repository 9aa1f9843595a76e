package app_test

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// redisServer starts a Redis of the test's own, and gives its address and what
// ends it.
func redisServer(t *testing.T) (address string, end func()) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server; to run this test, install the Debian package redis-server")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "no", "--requirepass", "hunter2")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	t.Cleanup(end)
	wait(t, "Redis", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return address, end
}

// Two gateways that share their counts let through together what one would, and go
// on when the store is gone. The store's password is in no log.
func TestSharedLimits(t *testing.T) {
	t.Parallel()
	address, end := redisServer(t)
	const limit = 10
	yaml := fmt.Sprintf(`quota:
  store: {kind: redis, url: "redis://:hunter2@%s/0", timeout: 1s, replicas: 2}
  rules:
    - name: calls
      per: [key]
      requests: {rate: %s/day, algorithm: window}
`, address, strconv.Itoa(limit))
	gs := []*Gateway{start(t, setup{More: yaml}), start(t, setup{More: yaml})}
	var admitted, limited atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 * limit {
		wg.Go(func() {
			switch a := gs[i%2].post(chatPath, chatOf("chat", "")); a.StatusCode {
			case 200:
				admitted.Add(1)
			case 429:
				limited.Add(1)
			default:
				t.Errorf("%d %s", a.StatusCode, a.Bytes)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != limit || limited.Load() != 3*limit {
		t.Errorf("%d calls let through and %d refused, the limit is %d", admitted.Load(), limited.Load(), limit)
	}
	for _, g := range gs {
		if g.metric("headgate_limiter_sync_total") < 1 || g.metric("headgate_limiter_sync_seconds_count", `call="acquire"`) < 1 || g.metric("headgate_limiter_sync_seconds_sum") <= 0 || g.metric("headgate_limiter_sync_down") != 0 {
			t.Error("the metrics do not tell of the store's calls")
		}
	}
	end()
	// Alone, a gateway has what it has not used of its half, when the other must have
	// learnt of it.
	alone := 0
	for _, g := range gs {
		wait(t, "a decision without the store", func() bool {
			a := g.post(chatPath, chatOf("chat", ""))
			switch a.StatusCode {
			case 200:
				alone++
			case 429:
				return strings.Contains(g.Log.String(), "local-share")
			case 503:
				time.Sleep(10 * time.Millisecond)
			default:
				t.Errorf("without the store: %d %s", a.StatusCode, a.Bytes)
			}
			return false
		})
		if g.metric("headgate_limiter_sync_failures_total") < 1 || g.metric("headgate_limiter_sync_down") != 1 {
			t.Error("the metrics do not tell that the store is gone")
		}
		if log := g.Log.String(); strings.Contains(log, "hunter2") {
			t.Errorf("the log: %s", log)
		}
	}
	if alone > limit/2 {
		t.Errorf("%d more let through without the store", alone)
	}
}
