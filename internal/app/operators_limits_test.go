package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/race"
)

const limited = `
quota:
  rules:
    - {name: each, per: [key], requests: {rate: 2/h, burst: 2}}
    - {name: all, requests: {rate: 100000/s, burst: 100000}, concurrent: 500}
  budgets:
    - {name: purse, limit: {tokens: 1000000}, period: month}
ledger: {kind: memory}`

// limit is one limit as GET /admin/v1/limits shows it.
func (g *Gateway) limit(rule, dimension string) map[string]any {
	g.t.Helper()
	for _, l := range g.operate("GET", "/admin/v1/limits", "").JSON(g.t)["limits"].([]any) {
		if within(l, "rule") == rule && within(l, "dimension") == dimension {
			return l.(map[string]any)
		}
	}
	g.t.Fatalf("no limit %s/%s", rule, dimension)
	return nil
}

func TestOperatorsLimits(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: limited})
	for range 3 {
		g.post(chatPath, chatBody)
	}
	l := g.limit("each", "requests")
	if l["rate"] != "2/h" || l["burst"] != 2.0 || l["cells"] != 1.0 || l["capacity"] != 2.0 || l["available"] != 0.0 || l["fill_ratio"] != 0.0 || l["admitted"] != 2.0 || l["refused"] != 1.0 {
		t.Errorf("%v", l)
	}
	if b := g.limit("purse", "tokens"); b["budget"] != true || b["capacity"] != 1e6 || b["available"].(float64) >= 1e6 {
		t.Errorf("%v", b)
	}
	top := g.operate("GET", "/admin/v1/limits?top=2", "").JSON(t)["top"].([]any)
	if len(top) != 2 || within(top[0], "cell") != "each/requests|key=test|tenant=tests" || within(top[0], "used") != 2.0 {
		t.Errorf("%v", top)
	}
	// A higher bound takes effect at once; what was used stays used.
	a := g.confirmed("PUT", "/admin/v1/limits/each", `{"rate":"1000/s","burst":5,"reason":"black friday","ttl":"1h"}`)
	if a.StatusCode != 200 || within(a.JSON(t), "old", "rate") != "2/h" || within(a.JSON(t), "new", "rate") != "1000/s" {
		t.Fatalf("%d %s", a.StatusCode, a.Bytes)
	}
	wait(t, "a call under the new bound", func() bool { return g.post(chatPath, chatBody).StatusCode == 200 })
	if l := g.limit("each", "requests"); l["rate"] != "1000/s" || within(l, "override", "burst") != 5.0 {
		t.Errorf("%v", l)
	}
	if a := g.post(chatPath, chatBody); a.Header.Get("X-RateLimit-Limit") == "2" {
		t.Error("the headers tell of the old bound")
	}
	// It outlasts a reload, which is on record where it changes limits.
	yaml := setup{More: limited}.document(g.UpstreamURL)
	if err := g.reload(strings.Replace(yaml, "2/h", "3/h", 1)); err != nil {
		t.Fatal(err)
	}
	if l := g.limit("each", "requests"); l["rate"] != "1000/s" {
		t.Errorf("after a reload: %v", l)
	}
	if err := g.reload(strings.Replace(strings.Replace(yaml, "2/h", "3/h", 1), "haiku", "limerick", 1)); err != nil {
		t.Fatal(err)
	}
	if a := g.confirmed("DELETE", "/admin/v1/limits/each?reason=over", ""); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
	if l := g.limit("each", "requests"); l["rate"] != "3/h" || l["override"] != nil {
		t.Errorf("%v", l)
	}
	if a := g.operate("DELETE", "/admin/v1/limits/each", ""); a.StatusCode != 404 {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
	entries := g.operate("GET", "/admin/v1/audit", "").JSON(t)["entries"].([]any)
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprint(within(e, "operation"), " ", within(e, "step"), " ", within(e, "reason")))
	}
	want := []string{"limits.reset done over", "limits.reset asked over", "config.reload done ", "limits.set done black friday", "limits.set asked black friday"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the record:\n%s", strings.Join(got, "\n"))
	}
	if e := entries[2]; within(e, "old", "rule each", "requests", "rate") != "2/h" || within(e, "new", "rule each", "requests", "rate") != "3/h" || within(e, "new", "rule all") != nil {
		t.Errorf("%v", e)
	}
	if e := entries[3]; len(within(e, "config_version").(string)) != 64 || within(e, "who") != "operator on this machine, 127.0.0.1" || within(e, "target") != "each/requests" {
		t.Errorf("%v", e)
	}
}

func TestOperatorsLimitMistakes(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: limited})
	for _, c := range []struct {
		rule, body string
		status     int
		want       string
	}{
		{"none", `{"rate":"1/s","reason":"r"}`, 422, "known rules are"},
		{"purse", `{"rate":"1/s","reason":"r"}`, 422, "no rule"},
		{"each", `{"rate":"1/s"}`, 422, "reason is missing"},
		{"each", `{"rate":"1 per s","reason":"r"}`, 400, "is not a rate"},
		{"each", `{"reason":"r"}`, 422, "rate is missing"},
		{"each", `{"rate":"1/s","burst":-2,"reason":"r"}`, 422, "burst"},
		{"each", `{"rate":"1/s","ttl":"-3s","reason":"r"}`, 400, "negative"},
		{"all", `{"rate":"1/s","reason":"r"}`, 422, "name one of them"},
		{"all", `{"dimension":"money","rate":"1/s","reason":"r"}`, 422, "does not limit"},
	} {
		a := g.operate("PUT", "/admin/v1/limits/"+c.rule, c.body)
		if message := fmt.Sprint(within(a.JSON(t), "error", "message")); a.StatusCode != c.status || !strings.Contains(message, c.want) {
			t.Errorf("%s %s: %d %s", c.rule, c.body, a.StatusCode, message)
		}
	}
	for _, query := range []string{"?top=0", "?top=x", "?top=1001"} {
		if a := g.operate("GET", "/admin/v1/limits"+query, ""); a.StatusCode != 400 {
			t.Errorf("%s: %d", query, a.StatusCode)
		}
	}
}

// Its time over, an override ends by itself, and that is on record.
func TestOperatorsLimitExpires(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: limited})
	g.confirmed("PUT", "/admin/v1/limits/all", `{"dimension":"concurrent","burst":7,"ttl":"600ms","reason":"a moment"}`)
	if l := g.limit("all", "concurrent"); l["burst"] != 7.0 {
		t.Errorf("%v", l)
	}
	wait(t, "the end on record", func() bool {
		return strings.Contains(string(g.operate("GET", "/admin/v1/audit?limit=1", "").Bytes), "limits.expire")
	})
	if l := g.limit("all", "concurrent"); l["burst"] != 500.0 || l["override"] != nil {
		t.Errorf("%v", l)
	}
}

// B20: a limit that is changed a hundred times a second for ten seconds, under
// load, fails no request and lets no more through than it says, and every change
// is on record, in order. A machine that is too busy for that takes longer.
func TestOperatorsLimitHotSwap(t *testing.T) {
	t.Parallel()
	const perSecond, burst = 100, 20
	changes := 1000
	if race.Enabled {
		changes = 200
	}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	yaml := strings.Replace(setup{More: strings.Replace(limited, "2/h, burst: 2", "100/s, burst: 20", 1)}.document("%s"),
		`admin: {listen: "127.0.0.1:0"}`, `admin: {listen: "127.0.0.1:0", audit: `+file+`}`, 1)
	g := start(t, setup{YAML: yaml})
	var in, out atomic.Int64
	var clients sync.WaitGroup
	begun := time.Now()
	changed := make(chan struct{})
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-changed:
					return
				case <-time.After(5 * time.Millisecond):
				}
				a := g.send(g.request("POST", chatPath, strings.NewReader(chatBody)))
				switch a.StatusCode {
				case 200:
					in.Add(1)
				case 429:
					out.Add(1)
				default:
					t.Errorf("%d %v", a.StatusCode, a.Err)
				}
			}
		})
	}
	func() {
		defer close(changed)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := range changes {
			body := fmt.Sprintf(`{"rate":"%d/s","burst":%d,"reason":"change %d"}`, perSecond-i%2, burst-i%2, i)
			if a := g.confirmed("PUT", "/admin/v1/limits/each", body); a.StatusCode != http.StatusOK {
				t.Fatalf("%d %s", a.StatusCode, a.Bytes)
			}
			<-tick.C
		}
	}()
	clients.Wait()
	if most := perSecond*time.Since(begun).Seconds() + burst + 1; float64(in.Load()) > most || out.Load() == 0 {
		t.Errorf("%d got in, %d did not; %.0f may in %d changes", in.Load(), out.Load(), most, changes)
	}
	t.Logf("%d changes in %s", changes, time.Since(begun))
	lines, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for i, line := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
		var e struct {
			Seq       int
			Step      string
			Operation string
			Reason    string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != i+1 || e.Operation != "limits.set" {
			t.Fatalf("line %d of the record: %s %v", i, line, err)
		}
		if e.Step == "done" {
			if e.Reason != fmt.Sprint("change ", done) {
				t.Errorf("line %d: %q is done after %d changes", i, e.Reason, done)
			}
			done++
		}
	}
	if done != changes {
		t.Errorf("%d of %d changes are on record", done, changes)
	}
}
