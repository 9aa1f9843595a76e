package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/lab/fake"
)

const crashYAML = `server: {api: {listen: "API", shutdown_grace: 5s}, admin: {listen: "ADMIN"}}
providers: [{name: p, dialect: openai, base_url: "%s/v1"}]
models: [{name: "*", targets: [{provider: p}]}]
keys: [{name: test, secret: "literal:` + key + `", tenant: tests}]
journal: {log: {enabled: false}}
prices: [{model: "*", input: 1.5, output: 3, request: 0.000001}]
quota:
  budgets:
    - {name: purse, per: [tenant], limit: {usd: 1000, tokens: 100000000}, period: none}
%s`

// received is what clients got whole: the tokens of each request, by its id.
type received struct {
	mu  sync.Mutex
	all map[string][2]int64
}

// K12, B14: the whole gateway is killed again and again under load. What a
// client has received whole is in the ledger exactly once and with its usage,
// and the budget is the sum of what the ledger charged.
func TestGatewayIsKilled(t *testing.T) {
	kills := 24
	provider := httptest.NewServer(fake.New(fake.Default()))
	t.Cleanup(provider.Close)
	ledgerYAML, path := ledgerAt(t)
	yaml := fmt.Sprintf(crashYAML, provider.URL, ledgerYAML)
	got := &received{all: map[string][2]int64{}}
	var number atomic.Int64
	for range kills {
		p := launch(t, ":", yaml, nil)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() { got.load(t, p, i%2 == 0, &number, stop) })
		}
		time.Sleep(time.Duration(20+rand.IntN(180)) * time.Millisecond)
		_ = p.Process.Kill()
		<-p.ended
		close(stop)
		wg.Wait()
	}
	last := launch(t, ":", yaml, nil)
	shown := standsOf(t, last)
	last.stop(t)

	all, balances := entries(t, path)
	var sum ledger.Totals
	seen := map[string]ledger.Entry{}
	for _, e := range all {
		if sum.Add(&e); seen[e.RequestID].ID != "" {
			t.Errorf("%s is in the ledger twice", e.RequestID)
		}
		seen[e.RequestID] = e
	}
	for id, tokens := range got.all {
		if e := seen[id]; e.Usage.Input != tokens[0] || e.Usage.Output != tokens[1] {
			t.Errorf("%s was received with %v tokens, and the ledger has %+v", id, tokens, e.Usage)
		}
	}
	if len(got.all) < 4*kills {
		t.Errorf("%d answers were received: that was no load", len(got.all))
	}
	charged := map[string]int64{}
	for _, b := range balances {
		charged[b.Scope[:strings.IndexByte(b.Scope, '|')]] += b.Used
	}
	if tokens, money := sum.Input+sum.Output, int64(sum.Cost); charged["purse/tokens"] != tokens || charged["purse/money"] != money ||
		shown["purse/tokens"] != float64(tokens) || fmt.Sprintf("%.9f", shown["purse/money"]) != fmt.Sprintf("%.9f", float64(money)/1e9) {
		t.Errorf("%d tokens and %d nano-dollars are in the ledger, charged are %v, and the status says %v", tokens, money, charged, shown)
	}
	t.Logf("%d kills, %d answers received, %d entries", kills, len(got.all), len(all))
}

// load calls until it is told to stop or nobody answers.
func (r *received) load(t *testing.T, p *process, stream bool, number *atomic.Int64, stop chan struct{}) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	for {
		select {
		case <-stop:
			return
		default:
		}
		id := fmt.Sprintf("crash-%d", number.Add(1))
		more := ""
		if stream {
			more = `,"stream":true,"stream_options":{"include_usage":true}`
		}
		q, err := http.NewRequest("POST", p.url+chatPath, strings.NewReader(chatOf(fmt.Sprintf("m+tokens=%d", 1+rand.IntN(60)), more)))
		if err != nil {
			t.Error(err)
			return
		}
		q.Header.Set("Authorization", "Bearer "+key)
		q.Header.Set("X-Request-Id", id)
		res, err := client.Do(q)
		if err != nil {
			return // killed
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		tokens, whole := usageIn(body, stream)
		if err != nil || !whole {
			return
		}
		if res.StatusCode != 200 {
			t.Errorf("%d %s", res.StatusCode, body)
			return
		}
		r.mu.Lock()
		r.all[id] = tokens
		r.mu.Unlock()
	}
}

// usageIn finds the usage of an answer that has come whole.
func usageIn(body []byte, stream bool) (tokens [2]int64, whole bool) {
	var m struct {
		Usage *struct {
			In  int64 `json:"prompt_tokens"`
			Out int64 `json:"completion_tokens"`
		}
	}
	if !stream {
		whole = json.Unmarshal(body, &m) == nil
	}
	for line := range strings.SplitSeq(string(body), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if whole = whole || data == "[DONE]"; ok && strings.Contains(data, `"usage":{`) {
			_ = json.Unmarshal([]byte(data), &m)
		}
	}
	if m.Usage == nil {
		return tokens, false
	}
	return [2]int64{m.Usage.In, m.Usage.Out}, whole
}

// standsOf is what has been used of each limit, as a process tells it.
func standsOf(t *testing.T, p *process) map[string]float64 {
	t.Helper()
	q, err := http.NewRequest("GET", p.url+"/v1/status/rate-limit?model=m", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var status struct{ Limits []stand }
	if err := json.NewDecoder(res.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	used := map[string]float64{}
	for _, s := range status.Limits {
		used[s.Rule+"/"+s.Dimension] = s.Limit - s.Remaining
	}
	return used
}
