package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
)

const sharingYAML = `server: {api: {listen: "API"}, admin: {listen: "ADMIN"}}
providers: [{name: p, dialect: openai, base_url: "%s/v1"}]
models: [{name: "*", targets: [{provider: p}]}]
keys: [{name: test, secret: "literal:` + key + `", tenant: tests}]
journal: {log: {enabled: false}}
quota:
  store: {kind: redis, url: "redis://:hunter2@%s/0", timeout: 5s}
  rules: [{name: calls, per: [key], requests: {rate: %d/s, burst: %d}}]
`

// flood calls each of the processes about 200 times a second, for so long and
// until one has refused: it returns when the latest call that was refused was
// sent. A machine that is too busy to ask for more than there is takes longer.
func flood(t *testing.T, during time.Duration, ps ...*process) time.Time {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	begun := time.Now()
	var refused atomic.Int64 // nanoseconds from begun
	var wg sync.WaitGroup
	for _, p := range ps {
		for range 4 {
			wg.Go(func() {
				for sent := begun; sent.Sub(begun) < during || refused.Load() == 0 && sent.Sub(begun) < time.Minute; time.Sleep(20 * time.Millisecond) {
					sent = time.Now()
					switch status, body, err := p.ask(client, chatOf("m", `,"max_tokens":2`)); {
					case err != nil || status != 200 && status != 429:
						t.Errorf("%d %s %v", status, body, err)
						return
					case status == 429:
						at := int64(sent.Sub(begun))
						for was := refused.Load(); at > was && !refused.CompareAndSwap(was, at); was = refused.Load() {
						}
					}
				}
			})
		}
	}
	wg.Wait()
	if refused.Load() == 0 {
		t.Error("no call was refused")
	}
	return begun.Add(time.Duration(refused.Load()))
}

// B3: two processes and one key in Redis let through together what one would, to
// the hundredth. When one of them is killed, with what it holds, the bound still
// holds for both together: the other goes on, at first at the whole rate and then at
// its share, because one that is not heard of may be using its own.
func TestProcessesShareALimit(t *testing.T) {
	const perSecond, burst = 40, 200 // a burst of five seconds, so that a busy machine loses nothing
	address, _ := redisServer(t)
	sim := fake.New(fake.Default())
	provider := httptest.NewServer(sim)
	t.Cleanup(provider.Close)
	yaml := fmt.Sprintf(sharingYAML, provider.URL, address, perSecond, burst)
	one, other := launch(t, ":", yaml, nil), launch(t, ":", yaml, nil)
	t.Parallel() // only now: until they listen, another test could take their ports

	// What has reached the provider has been let through, whatever became of it.
	passed := func() float64 { return float64(sim.Stats().Requests) }
	begun := time.Now()
	allowed := func(at time.Time) float64 { return perSecond*at.Sub(begun).Seconds() + burst }
	// Whoever was refused when it asked found nothing left of what was allowed.
	least := allowed(flood(t, 10*time.Second, one, other))
	n, most := passed(), allowed(time.Now())
	if t.Logf("%v calls let through, %.1f allowed", n, most); n > most*1.01 || n < least*0.99 {
		t.Errorf("two processes let %v calls through, want %.1f to %.1f, to the hundredth", n, least, most)
	}
	_ = one.Process.Kill()
	<-one.ended
	refused := flood(t, 3*time.Second, other).Sub(begun)
	after, most := passed(), allowed(time.Now())
	if t.Logf("after one was killed: %v calls, the latest refusal after %s, %.1f allowed", after, refused, most); after > most*1.01 || after == n {
		t.Errorf("%v calls let through, %v of them since one was killed; %.1f were allowed", after, after-n, most)
	}
	other.stop(t)
}
