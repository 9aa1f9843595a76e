package journal

import (
	"math"
	"net/http"
	"sync"
	"time"
)

// MetricsWindow is how the gateway did in the last ten seconds, or since it
// started if that is shorter.
type MetricsWindow struct {
	// RPS is the successful answers a second.
	RPS float64 `json:"rps"`
	// P99 is the time in milliseconds that 99 of 100 of them took at most, from
	// a request's first byte to its answer's last; within one in a hundred.
	P99 float64 `json:"p99_ms"`
	// TokenTPS is the tokens a second of the answers.
	TokenTPS float64 `json:"token_tps"`
}

const (
	windowLength = 10 * time.Second
	slotLength   = time.Second
	// windowSlots is one more than the window has: the oldest is on its way out.
	windowSlots = int(windowLength/slotLength) + 1
	// spread is the ratio of one latency class to the next: the middle of a class
	// is within a hundredth of all that is in it (Masson, Rim and Lee, DDSketch,
	// VLDB 2019). The classes reach from a microsecond to more than an hour.
	spread = 1.02
	// latencyClasses is the number of latency classes.
	latencyClasses = 1120
)

// slot is what ended within one second.
type slot struct {
	second    int64 // since the window began
	count     int64
	tokens    int64
	latencies [latencyClasses]uint32
}

// window keeps the last seconds in a ring.
type window struct {
	begun time.Time
	mu    sync.Mutex
	ring  [windowSlots]slot
}

// add enters a closed record at the time at which it ended.
func (w *window) add(r *Record) {
	if r.Outcome != OK || r.Status >= http.StatusBadRequest {
		return
	}
	second := int64(r.Start.Add(r.Elapsed).Sub(w.begun) / slotLength)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.ring[max(second, 0)%int64(windowSlots)]
	switch {
	case second < s.second:
		return // it ended so long ago that its second is over
	case second > s.second:
		*s = slot{second: second}
	}
	s.count++
	s.tokens += r.tokens().Output
	s.latencies[latencyClass(r.Elapsed)]++
}

// latencyClass is the class of a latency; see spread.
func latencyClass(d time.Duration) int {
	us := float64(d) / float64(time.Microsecond)
	if us <= 1 {
		return 0
	}
	return min(int(math.Ceil(math.Log(us)/math.Log(spread))), latencyClasses-1)
}

// latencyOf is the middle of a class, in milliseconds.
func latencyOf(class int) float64 {
	return 2 * math.Pow(spread, float64(class)) / (1 + spread) / 1000
}

// at sums up the window that ends now. The second that the window begins in
// counts by the part of it that lies within.
func (w *window) at(now time.Time) (m MetricsWindow) {
	age := now.Sub(w.begun)
	length := min(age, windowLength)
	if length <= 0 {
		return m
	}
	current := int64(age / slotLength)
	leaving := 1 - float64(age%slotLength)/float64(slotLength)
	var count, tokens float64
	var latencies [latencyClasses]float64
	w.mu.Lock()
	for i := range w.ring {
		s := &w.ring[i]
		share := 1.0
		switch back := current - s.second; {
		case back < 0 || back >= int64(windowSlots):
			continue
		case back == int64(windowSlots)-1:
			share = leaving
		}
		count += share * float64(s.count)
		tokens += share * float64(s.tokens)
		for c, n := range s.latencies {
			if n > 0 {
				latencies[c] += share * float64(n)
			}
		}
	}
	w.mu.Unlock()
	m.RPS, m.TokenTPS = count/length.Seconds(), tokens/length.Seconds()
	m.P99 = quantileOf(&latencies, 0.99*count)
	return m
}

// quantileOf is the latency that rank of the answers took at most.
func quantileOf(latencies *[latencyClasses]float64, rank float64) float64 {
	if rank <= 0 {
		return 0
	}
	seen := 0.0
	for c, n := range latencies {
		if seen += n; seen >= rank-1e-9 {
			return latencyOf(c)
		}
	}
	return latencyOf(latencyClasses - 1)
}

// Window is how the gateway did in the last seconds.
func (j *Room) Window() MetricsWindow {
	j.digester.digest()
	return j.window.at(time.Now())
}

// showWindow sets the gauges of the window, before they are read.
func (j *Room) showWindow() {
	m := j.window.at(time.Now())
	j.m.window[0].Set(m.RPS)
	j.m.window[1].Set(m.P99)
	j.m.window[2].Set(m.TokenTPS)
}
