package confirm

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	body  = sha256.Sum256([]byte("body"))
	other = sha256.Sum256([]byte("other"))
)

func issue(t *testing.T, b *Book, principal, op string, body [32]byte, now time.Time) string {
	t.Helper()
	token, err := b.Issue(principal, op, body, now)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestRedeem(t *testing.T) {
	for name, c := range map[string]struct {
		principal, op string
		body          [32]byte
		after         time.Duration
		ok            bool
	}{
		"the same":           {"acme/web", "purge", body, TTL - 1, true},
		"other principal":    {"acme/we", "bpurge", body, 0, false},
		"other operation":    {"acme/web", "purge2", body, 0, false},
		"other body":         {"acme/web", "purge", other, 0, false},
		"expired":            {"acme/web", "purge", body, TTL, false},
		"long since expired": {"acme/web", "purge", body, time.Hour, false},
	} {
		var b Book
		token := issue(t, &b, "acme/web", "purge", body, start)
		err := b.Redeem(token, c.principal, c.op, c.body, start.Add(c.after))
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		again := b.Redeem(token, "acme/web", "purge", body, start)
		if again == nil {
			t.Errorf("%s: the token worked again", name)
		}
		if fault.KindOf(again) != fault.Forbidden || strings.Contains(again.Error(), token) {
			t.Errorf("%s: %v", name, again)
		}
	}
}

func TestMadeUp(t *testing.T) {
	var b Book
	token := issue(t, &b, "p", "op", body, start)
	for _, made := range []string{"", "x", token[:len(token)-1], token + "A", strings.ToUpper(token)} {
		if b.Redeem(made, "p", "op", body, start) == nil {
			t.Errorf("%q was accepted", made)
		}
	}
	if err := b.Redeem(token, "p", "op", body, start); err != nil {
		t.Error("what others made up used the token up:", err)
	}
}

// The book does not grow without bound, and one principal does not take it all.
func TestBounds(t *testing.T) {
	var b Book
	first := issue(t, &b, "victim", "op", body, start)
	var mine []string
	for range 3 * maxEach {
		mine = append(mine, issue(t, &b, "greedy", "op", body, start))
	}
	for i, token := range mine {
		if ok := b.Redeem(token, "greedy", "op", body, start) == nil; ok != (i >= 2*maxEach) {
			t.Errorf("token %d of %d: %v", i, len(mine), ok)
		}
	}
	if err := b.Redeem(first, "victim", "op", body, start); err != nil {
		t.Error("another's tokens pushed it out:", err)
	}
	refused := 0
	for i := range 3 * maxAll {
		if _, err := b.Issue(fmt.Sprint(i), "op", body, start); err != nil {
			refused++
			if fault.Of(err).RetryAfter == 0 {
				t.Fatal("it does not say when to try again")
			}
		}
	}
	if len(b.tokens) > maxAll || len(b.queue) > 2*maxAll || refused == 0 {
		t.Errorf("%d tokens, %d in the queue, %d refused", len(b.tokens), len(b.queue), refused)
	}
	issue(t, &b, "victim", "op", body, start.Add(TTL))
	if len(b.tokens) != 1 || len(b.queue) != 1 || len(b.each) != 1 {
		t.Errorf("what has expired stays: %d %d %d", len(b.tokens), len(b.queue), len(b.each))
	}
}

// A random history has the outcomes of a list that is searched from end to end.
func TestHistory(t *testing.T) {
	type issued struct {
		token, principal, op string
		body                 [32]byte
		at                   time.Time
		gone                 bool
	}
	r := rand.New(rand.NewPCG(1, 2))
	var b Book
	var all []*issued
	now := start
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	for range 4_000 {
		now = now.Add(time.Duration(r.IntN(40)) * time.Second)
		who, op, sum := pick("a", "b"), pick("x", "y"), body
		if r.IntN(4) == 0 {
			sum = other
		}
		if len(all) == 0 || r.IntN(2) == 0 {
			all = append(all, &issued{issue(t, &b, who, op, sum, now), who, op, sum, now, false})
			n := 0 // the principal's oldest are pushed out
			for i := len(all) - 1; i >= 0; i-- {
				if e := all[i]; e.principal == who && !e.gone && now.Before(e.at.Add(TTL)) {
					if n++; n > maxEach {
						e.gone = true
					}
				}
			}
			continue
		}
		e := all[max(0, len(all)-1-r.IntN(24))]
		if r.IntN(2) == 0 {
			who, op, sum = e.principal, e.op, e.body
		}
		want := !e.gone && now.Before(e.at.Add(TTL)) && who == e.principal && op == e.op && sum == e.body
		e.gone = true
		if got := b.Redeem(e.token, who, op, sum, now) == nil; got != want {
			t.Fatalf("at %v, of %+v: %v, want %v", now, e, got, want)
		}
	}
}

func TestOnce(t *testing.T) {
	var b Book
	token := issue(t, &b, "p", "op", body, start)
	var won atomic.Int32
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if b.Redeem(token, "p", "op", body, start) == nil {
				won.Add(1)
			}
			_, _ = b.Issue("q", "op", body, start)
		})
	}
	if all.Wait(); won.Load() != 1 {
		t.Errorf("it worked %d times", won.Load())
	}
}
