package app_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// One key's limit is set, shown, and reset; another's is as it was.
func TestOperatorsLimitOfOneKey(t *testing.T) {
	t.Parallel()
	g := start(t, setup{Keys: `- {name: web, secret: "literal:sk-web-012345678901", tenant: acme}`, More: limited})
	bound := func(secret string) string {
		return g.post(chatPath, chatBody, "Authorization", "Bearer "+secret).Header.Get("X-RateLimit-Limit")
	}
	const web = "sk-web-012345678901"
	a := g.confirmed("PUT", "/admin/v1/limits/each", `{"rate":"9/s","burst":7,"subject":{"key":"web","tenant":"acme"},"ttl":"1h","reason":"their launch"}`)
	if a.StatusCode != 200 || within(a.JSON(t), "old", "rate") != "2/h" || within(a.JSON(t), "new", "subject", "key") != "web" {
		t.Fatalf("%d %s", a.StatusCode, a.Bytes)
	}
	if mine, theirs := bound(key), bound(web); mine != "2" || theirs != "7" {
		t.Errorf("the bounds are %s and %s", mine, theirs)
	}
	shown := g.operate("GET", "/admin/v1/limits", "").JSON(t)
	if within(shown, "overrides", 0, "subject", "tenant") != "acme" || within(shown, "overrides", 0, "burst") != 7.0 || g.limit("each", "requests")["override"] != nil {
		t.Errorf("%v", shown)
	}
	if e := within(g.operate("GET", "/admin/v1/audit?limit=1", "").JSON(t), "entries", 0); within(e, "target") != "each/requests" || within(e, "step") != "done" || within(e, "new", "subject", "key") != "web" {
		t.Errorf("%v", e)
	}
	for body, want := range map[string]string{
		`{"rate":"9/s","reason":"r","subject":{"key":"web"}}`: "has no tenant", `{"rate":"9/s","reason":"r","subject":{"claim":"x"}}`: "name all",
	} {
		if a := g.operate("PUT", "/admin/v1/limits/each", body); a.StatusCode != 422 || !strings.Contains(string(a.Bytes), want) {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.Bytes)
		}
	}
	for query, status := range map[string]int{"subject=web": 400, "subject=key%3Dother&subject=tenant%3Dacme": 404} {
		if a := g.operate("DELETE", "/admin/v1/limits/each?"+query, ""); a.StatusCode != status {
			t.Errorf("%s: %d", query, a.StatusCode)
		}
	}
	if a := g.confirmed("DELETE", "/admin/v1/limits/each?subject=key%3Dweb&subject=tenant%3Dacme", ""); a.StatusCode != 200 || within(a.JSON(t), "withdrawn", 0, "burst") != 7.0 {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
	if bound(web) != "2" {
		t.Error("it was reset, and holds")
	}
}

// Beside 500 requests a second, 99 of 100 changes of a limit, of a rule or of
// one key of it, are in force within a second of the operator's call: here all.
func TestOperatorsLimitTakesEffect(t *testing.T) {
	t.Parallel()
	const clients, each, changes = 4, 8 * time.Millisecond, 30
	g := start(t, setup{More: strings.Replace(limited, "2/h, burst: 2", "100000/s, burst: 50000", 1)})
	var seen [changes]atomic.Int64 // when a client was first told of the bound
	var load sync.WaitGroup
	var sent atomic.Int64
	begun, stop := time.Now(), make(chan struct{})
	for range clients {
		load.Go(func() {
			tick := time.NewTicker(each)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				a := g.send(g.request("POST", chatPath, strings.NewReader(chatBody)))
				sent.Add(1)
				if a.StatusCode != 200 {
					t.Errorf("%d %v", a.StatusCode, a.Err)
				}
				if n, err := strconv.Atoi(a.Header.Get("X-RateLimit-Limit")); err == nil && n > 60000 {
					seen[n-60001].CompareAndSwap(0, int64(time.Since(begun)))
				}
			}
		})
	}
	var took []time.Duration
	for i := range changes {
		subject := ""
		if i >= changes/2 {
			subject = `"subject":{"key":"test","tenant":"tests"},`
		}
		asked := time.Since(begun)
		g.confirmed("PUT", "/admin/v1/limits/each", fmt.Sprintf(`{"rate":"100000/s","burst":%d,%s"reason":"again"}`, 60001+i, subject))
		wait(t, "the change", func() bool { return seen[i].Load() != 0 })
		took = append(took, time.Duration(seen[i].Load())-asked)
	}
	close(stop)
	load.Wait()
	slices.Sort(took)
	t.Logf("%.0f requests/s; in force after %v at most, %v in the middle", float64(sent.Load())/time.Since(begun).Seconds(), took[changes-1], took[changes/2])
	if took[changes-1] >= time.Second {
		t.Errorf("a change took %v", took[changes-1])
	}
}
