package journal

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

// ended closes a record that took so long and has just ended.
func ended(j *Room, p *Plan, took time.Duration, outcome Outcome, status int, output int64) {
	j.Close(p, &Record{Start: time.Now().Add(-took), Elapsed: took, Outcome: outcome, Status: status, Usage: llm.Usage{Input: 3, Output: output}})
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*want {
		t.Errorf("%s is %v, want %v within %v", what, got, want, within)
	}
}

// A load that is known shows within two in a hundred, at whatever moment it is
// looked at.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, p := open(t, Options{Output: &buffer{}})
		defer closed(t, j)
		if m := j.Window(); m != (MetricsWindow{}) {
			t.Errorf("at the start: %+v", m)
		}
		random := rand.New(rand.NewPCG(1, 2))
		type one struct {
			at   time.Time
			took float64
		}
		var all []one
		for i := range 40 * 200 { // 200 a second for 40 s
			took := time.Duration(math.Exp(random.NormFloat64()) * float64(50*time.Millisecond))
			ended(j, p, took, OK, 200, 30)
			all = append(all, one{time.Now(), float64(took) / 1e6})
			if i%4 == 0 { // neither of these counts
				ended(j, p, time.Hour, Failed, 502, 30)
				ended(j, p, time.Hour, Cancelled, 200, 30)
			}
			time.Sleep(5 * time.Millisecond)
			if i < 100 || i%317 != 0 {
				continue
			}
			var took99 []float64
			for _, o := range all {
				if time.Since(o.at) <= windowLength {
					took99 = append(took99, o.took)
				}
			}
			slices.Sort(took99)
			m := j.Window()
			near(t, "rps", m.RPS, 200, 0.02)
			near(t, "token_tps", m.TokenTPS, 6000, 0.02)
			if len(took99) >= 1900 { // else the percentile itself is a matter of two or three answers
				low, high := took99[int(0.988*float64(len(took99)))], took99[int(0.992*float64(len(took99)))]
				if m.P99 < 0.99*low || m.P99 > 1.01*high {
					t.Errorf("p99 is %v ms, want one from %v to %v", m.P99, low, high)
				}
			}
		}
		fams := families(t, j)
		m := j.Window()
		for name, want := range map[string]float64{"headgate_window_rps": m.RPS, "headgate_window_p99_ms": m.P99, "headgate_window_token_tps": m.TokenTPS} {
			near(t, name, fams[name].Metric[0].Gauge.GetValue(), want, 0.001)
		}
		time.Sleep(5 * time.Second)
		near(t, "rps after five quiet seconds", j.Window().RPS, 100, 0.02)
		time.Sleep(6 * time.Second)
		if m := j.Window(); m != (MetricsWindow{}) {
			t.Errorf("after eleven quiet seconds: %+v", m)
		}
	})
}

// Constant latencies show as they are, and the names are as they are.
func TestWindowConstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, took := range []time.Duration{500 * time.Nanosecond, 3 * time.Microsecond, time.Millisecond, 187 * time.Millisecond, 2800 * time.Millisecond, time.Hour} {
			j, p := open(t, Options{Output: &buffer{}})
			for range 100 {
				ended(j, p, took, OK, 200, 1)
				time.Sleep(10 * time.Millisecond)
			}
			if took > time.Microsecond {
				near(t, took.String(), j.Window().P99, float64(took)/1e6, 0.01)
			}
			closed(t, j)
		}
		b, err := json.Marshal(MetricsWindow{1, 2, 3})
		if err != nil || string(b) != `{"rps":1,"p99_ms":2,"token_tps":3}` {
			t.Errorf("%s %v", b, err)
		}
	})
}
