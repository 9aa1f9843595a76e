package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate-ai/headgate/internal/quota"
)

// letters are how the script calls the ways to keep a count.
var letters = [...]string{quota.KeepBucket: "b", quota.KeepWindow: "w", quota.KeepFixed: "f", quota.KeepHeld: "h"}

// arguments are those of the script for one key.
type arguments struct {
	need, extra, waiting int64
	soft                 bool
	age                  time.Duration
}

func appendArguments(args []string, a *quota.Account, w arguments) []string {
	soft := "0"
	if w.soft {
		soft = "1"
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	return append(args, letters[a.Keep], n(a.Count), micros(a.Period), n(a.Burst),
		n(w.need), n(w.extra), n(w.waiting), soft, micros(w.age),
		n(a.Own.Held), n(a.Own.Spent), n(a.Own.Floor), n(a.Own.Seq), micros(a.Own.Lasts))
}

// micros are microseconds with what is below them.
func micros(d time.Duration) string {
	if d%time.Microsecond == 0 {
		return strconv.FormatInt(int64(d/time.Microsecond), 10)
	}
	return strconv.FormatFloat(float64(d)/1e3, 'f', 3, 64)
}

// groups are the indices of accounts that can be in one call of the script: all,
// or in a cluster those with one tag.
func (s *Store) groups(n int, tag func(int) string) [][]int {
	s.mu.Lock()
	cluster := s.client != nil && s.client.Mode() == rueidis.ClientModeCluster
	s.mu.Unlock()
	var groups [][]int
	at := map[string]int{}
	for i := range n {
		t := ""
		if cluster {
			t = tag(i)
		}
		g, ok := at[t]
		if !ok {
			g = len(groups)
			at[t] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// Acquire takes all wants or none. In a cluster it takes those of one tag after
// the others, and gives back what it took if some refuse.
func (s *Store) Acquire(ctx context.Context, wants []quota.Want) (quota.Answer, error) {
	if _, err := s.connection(ctx); err != nil {
		return quota.Answer{}, err
	}
	a := quota.Answer{OK: true, Given: make([]quota.Given, len(wants))}
	groups := s.groups(len(wants), func(i int) string { return wants[i].Tag })
	for k, g := range groups {
		ok, err := s.acquire(ctx, wants, g, a.Given)
		if err != nil {
			return a, err
		}
		if ok {
			continue
		}
		a.OK = false
		for _, i := range g {
			a.Given[i].Granted = 0
		}
		return a, s.undo(ctx, wants, groups[:k], groups[k+1:], a.Given)
	}
	return a, nil
}

// acquire asks for the wants of one group.
func (s *Store) acquire(ctx context.Context, wants []quota.Want, of []int, given []quota.Given) (bool, error) {
	keys := make([]string, 0, len(of))
	args := make([]string, 0, 2+14*len(of))
	args = append(args, "acquire", s.me)
	for _, i := range of {
		w := &wants[i]
		keys = append(keys, w.Key)
		args = appendArguments(args, &w.Account, arguments{need: w.Need, extra: w.Extra, waiting: w.Waiting, soft: w.Soft})
	}
	m, err := s.run(ctx, countsScript, keys, args)
	if err != nil {
		return false, err
	}
	n, err := m.AsIntSlice()
	if err != nil || len(n) != 1+5*len(of) {
		return false, errReply
	}
	for k, i := range of {
		f := n[1+5*k:]
		given[i] = quota.Given{
			OK: f[0] == 1, Granted: f[1], Remaining: f[2],
			Wait: time.Duration(f[3]) * time.Microsecond, Reset: time.Duration(f[4]) * time.Microsecond,
		}
	}
	return n[0] == 1, nil
}

// undo gives back what some groups granted when another refused. Those that were
// not asked stand as if they had granted nothing.
func (s *Store) undo(ctx context.Context, wants []quota.Want, took, unasked [][]int, given []quota.Given) error {
	var back []quota.Change
	for _, g := range took {
		for _, i := range g {
			if n := given[i].Granted; n > 0 {
				given[i].Granted, given[i].Remaining = 0, given[i].Remaining+n
				c := quota.Change{Account: wants[i].Account, Amount: -n}
				// The gateway still has what it said, and no more.
				c.Own.Seq++
				back = append(back, c)
			}
		}
	}
	for _, g := range unasked {
		for _, i := range g {
			given[i].Unasked = true
		}
	}
	if len(back) == 0 {
		return nil
	}
	return s.Report(ctx, back)
}

// Report takes and gives back, whatever the limits say.
func (s *Store) Report(ctx context.Context, changes []quota.Change) error {
	if _, err := s.connection(ctx); err != nil {
		return err
	}
	for _, g := range s.groups(len(changes), func(i int) string { return changes[i].Tag }) {
		keys := make([]string, 0, len(g))
		args := make([]string, 0, 2+14*len(g))
		args = append(args, "report", s.me)
		for _, i := range g {
			c := &changes[i]
			keys = append(keys, c.Key)
			args = appendArguments(args, &c.Account, arguments{need: c.Amount, age: c.Age})
		}
		if _, err := s.run(ctx, countsScript, keys, args); err != nil {
			return err
		}
	}
	return nil
}
