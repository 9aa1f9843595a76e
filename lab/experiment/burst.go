package experiment

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// bursts are what a gateway has told of a limit's burst over time.
type bursts struct {
	begun time.Time
	at    []time.Duration
	burst []float64
}

// watchBurst asks a gateway with one limit for its burst ten times a second. Its
// result ends that and returns what was seen.
func watchBurst(ctx context.Context, url string) (end func() *bursts) {
	ctx, cancel := context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Second}
	b := &bursts{begun: time.Now()}
	var asking sync.WaitGroup
	asking.Go(func() {
		for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
			if burst, ok := askBurst(ctx, client, url); ok {
				b.at, b.burst = append(b.at, time.Since(b.begun)), append(b.burst, burst)
			}
		}
	})
	return func() *bursts {
		cancel()
		asking.Wait()
		client.CloseIdleConnections()
		return b
	}
}

// askBurst reads a limit's burst as any client can; that takes nothing of it.
func askBurst(ctx context.Context, client *http.Client, url string) (burst float64, ok bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/status/rate-limit?model=sim-small", nil)
	if err != nil {
		return 0, false
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, false // a busy gateway is asked again
	}
	defer resp.Body.Close()
	var status struct{ Limits []struct{ Limit float64 } }
	if json.NewDecoder(resp.Body).Decode(&status) != nil || len(status.Limits) != 1 {
		return 0, false
	}
	return status.Limits[0].Limit, true
}

// report adds the largest burst and the mean to a sample, as multiples of what
// is configured, and when it was 2.5 times that, if ever.
func (b *bursts) report(s Sample, configured float64) {
	sum, most := 0.0, 0.0
	for i, burst := range b.burst {
		sum += burst
		most = max(most, burst)
		if _, ok := s["reached"]; !ok && burst >= 2.5*configured {
			s["reached"] = b.at[i].Seconds()
		}
	}
	if n := len(b.burst); n > 0 {
		s["burst"], s["burst_mean"] = most/configured, sum/float64(n)/configured
	}
}
