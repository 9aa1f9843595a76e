package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
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

// flood calls each of the processes about 200 times a second, for so long.
func flood(t *testing.T, during time.Duration, ps ...*process) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	end := time.Now().Add(during)
	var wg sync.WaitGroup
	for _, p := range ps {
		for range 4 {
			wg.Go(func() {
				for ; time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
					if status, body, err := p.ask(client, chatOf("m", `,"max_tokens":2`)); err != nil || status != 200 && status != 429 {
						t.Errorf("%d %s %v", status, body, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

// B3: two processes and one key in Redis let through together what one would, to
// the hundredth. When one of them is killed, the other goes on at the whole rate but
// for what the killed one held, and the bound still holds for both together.
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
	allowed := func() float64 { return perSecond*time.Since(begun).Seconds() + burst }
	flood(t, 10*time.Second, one, other)
	n, most := passed(), allowed()
	if t.Logf("%v calls let through, %.1f allowed", n, most); n > most*1.01 || n < (perSecond*10+burst)*0.99 {
		t.Errorf("two processes let %v calls through, want %d to %.1f, to the hundredth", n, perSecond*10+burst, most)
	}
	_ = one.Process.Kill()
	<-one.ended
	flood(t, 3*time.Second, other)
	after, most := passed(), allowed()
	if t.Logf("after one was killed: %v calls, %.1f allowed", after, most); after > most*1.01 || after-n < perSecond*3*0.8 {
		t.Errorf("%v calls let through, %v of them in the three seconds since one was killed; %.1f were allowed", after, after-n, most)
	}
	other.stop(t)
}
