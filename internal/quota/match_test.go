package quota

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/llm"
)

// picky is rules with conditions of all sorts, on names and on what else there is.
func picky(t testing.TB) Config {
	c := isolating(t)
	for i, when := range []string{
		`request.stream && request.path == "/v1/chat/completions"`, `request.bytes > 500`, `request.messages < 3 || tier == "gold"`,
		`principal.claims.team == "red"`, `"admin" in principal.roles`, `time.minute % 2 == 0`, `cidr("192.0.2.0/31").containsIP(request.ip)`,
		`est_tokens > 700 && model == "small"`, `request.ip == "192.0.2.2"`, `!stream`,
	} {
		c.Rules = append(c.Rules, RuleConfig{
			Name: fmt.Sprint("when-", i), When: when, Per: []string{"tenant"}, Concurrent: 40,
			Requests: RateConfig{Rate: rate(t, "900/min"), Burst: 20},
		})
	}
	return c
}

func somebody(r *rand.Rand, in *input) *Subject {
	s := in.of("alpha")
	f := s.Facts
	f.IP, f.User, f.Tier, f.Stream, f.Bytes, f.Messages, f.Tokens = s.IP, s.User, s.Tier, r.IntN(2) == 0, r.Int64N(1000), r.Int64N(6), in.demand.Input
	f.Claims, f.Now = s.Claims, time.Now()
	if r.IntN(2) == 0 {
		f.Roles = []string{"admin"}
	}
	return s
}

// What is remembered of calls changes nothing: a room that matches each call anew
// decides the same.
func TestMatchesAreTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 1))
		price := dollar(t)
		remembers, forgets := newSide(t, New()), newSide(t, New())
		remembers.plan, forgets.plan = compile(t, remembers.room, picky(t)), compile(t, forgets.room, picky(t))
		forgets.plan.matches = nil
		refused := 0
		for i := range 8000 {
			time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
			now, in := time.Now(), someInput(r, price)
			s := somebody(r, &in)
			got, err := remembers.room.Reserve(remembers.plan, s, in.demand, now)
			want, wantErr := forgets.room.Reserve(forgets.plan, s, in.demand, now)
			if seen(got, err) != seen(want, wantErr) || limitsOf(got) != limitsOf(want) {
				t.Fatalf("after %d calls\n%s of %s\nand without memory\n%s of %s", i, seen(got, err), limitsOf(got), seen(want, wantErr), limitsOf(want))
			}
			if err != nil {
				refused++
			} else {
				remembers.holds, forgets.holds = append(remembers.holds, got), append(forgets.holds, want)
			}
			for len(remembers.holds) > r.IntN(12) {
				u := llm.Usage{Input: in.demand.Input, Output: r.Int64N(1000)}
				got, want := remembers.holds[0].Settle(Settlement{Usage: u, Price: price}, now), forgets.holds[0].Settle(Settlement{Usage: u, Price: price}, now)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("after %d calls %v is charged, and without memory %v", i, got, want)
				}
				remembers.holds, forgets.holds = remembers.holds[1:], forgets.holds[1:]
			}
			if i%100 == 99 {
				time.Sleep(time.Duration(r.IntN(2)) * time.Hour) // most cells are full again
				remembers.room.Sweep(remembers.plan, time.Now())
				forgets.room.Sweep(forgets.plan, time.Now())
			}
		}
		if refused < 800 {
			t.Errorf("%d refusals: nothing was tried", refused)
		}
	})
}

// limitsOf lists what a hold has taken, and of which cells.
func limitsOf(h *Hold) string {
	var b strings.Builder
	for i := range h.taken {
		fmt.Fprintf(&b, "%s:%d ", h.taken[i].cell.key, h.taken[i].n)
	}
	return b.String()
}

// A cell that was forgotten is used no more by those who remember where it was.
func TestForgottenCellsAreFoundAgain(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{{Name: "c", Per: []string{"key"}, Concurrent: 2}}})
	now := time.Now()
	for range 3 {
		var holds []*Hold
		for range 2 {
			h, err := r.Reserve(p, by("a"), Demand{}, now)
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h)
		}
		if _, err := r.Reserve(p, by("a"), Demand{}, now); err == nil {
			t.Error("three at once")
		}
		for _, h := range holds {
			h.Settle(Settlement{}, now)
		}
		if r.cells.sweep(r.at(now)); r.cells.len() != 0 {
			t.Fatalf("%d cells are left", r.cells.len())
		}
	}
}

// What names have between them cannot be moved from one to the next.
func TestKindsAreApart(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{{Name: "one", When: `request.model != ""`, Per: []string{"key", "user"}, Concurrent: 1}}})
	names := []string{"", "a", "aa", "a\x01a", "\x00", "a\x00", strings.Repeat("a", 127), strings.Repeat("a", 128), strings.Repeat("a", longestKind)}
	n := 0
	for _, key := range names {
		for _, user := range names {
			for _, model := range names {
				s := by(key)
				s.User, s.Model, s.Facts.Model = user, model, model
				x := p.matches.of(r, p, s)
				if again := p.matches.of(r, p, s); x.kind != "" && again != x || x.answers != again.answers || len(x.concerns) != len(again.concerns) {
					t.Fatalf("%q, %q, %q is matched anew", key, user, model)
				}
				if concerned := len(x.concerns) > 1; concerned != (model != "") { // the other is what the credential brings
					t.Fatalf("%q, %q, %q: concerned is %v", key, user, model, concerned)
				}
				if model != "a" {
					continue
				}
				if _, err := r.Reserve(p, s, Demand{}, time.Now()); err != nil {
					t.Fatalf("%q, %q: %v", key, user, err)
				}
				n++
			}
		}
	}
	if r.cells.len() != n {
		t.Errorf("%d cells of %d kinds", r.cells.len(), n)
	}
}

// However many kinds there are, so many are remembered, and those that come no
// more are forgotten.
func TestMatchesAreBounded(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{{Name: "r", Requests: RateConfig{Rate: rate(t, "1000000/s")}}}})
	remembered := func() (n int) {
		for i := range p.matches.sets {
			for j := range p.matches.sets[i] {
				if p.matches.sets[i][j].Load() != nil {
					n++
				}
			}
		}
		return n
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 4 * matchSets {
				s := by(fmt.Sprint(g, i))
				if x := p.matches.of(r, p, s); x != p.matches.of(r, p, s) && g == 0 && i == 0 {
					t.Error("a kind is not remembered")
				}
			}
		})
	}
	wg.Wait()
	if n := remembered(); n < matchSets*matchWays*9/10 {
		t.Errorf("%d kinds are remembered of many more", n)
	}
	p.matches.sweep()
	kept := p.matches.of(r, p, by("kept"))
	if p.matches.sweep(); remembered() != 1 || p.matches.of(r, p, by("kept")) != kept {
		t.Errorf("%d kinds are remembered, and one was asked for", remembered())
	}
}

// What is remembered goes by every field that a condition may read.
func TestNamedFields(t *testing.T) {
	r := New()
	for _, name := range condition.Names() {
		c, err := condition.Compile(name + " == " + name)
		if err != nil {
			t.Fatal(err)
		}
		p := compile(t, r, Config{Rules: []RuleConfig{{Name: "r", When: c.String(), Concurrent: 1}}})
		x := r.match(p, by("a"))
		asked := x.concerns[len(x.concerns)-1].asked
		if named := c.Uses().Within(condition.Named); asked == named || len(p.matches.facts) == 0 == named {
			t.Errorf("%s: asked of each call %v, part of the kind %v", name, asked, len(p.matches.facts) > 0)
		}
	}
}
