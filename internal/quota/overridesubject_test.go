package quota

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// one is an override of the rule one for a key of the tenant acme.
func one(t testing.TB, key, r string, burst int64) Override {
	return Override{Rule: "one", Subject: map[string]string{"key": key, "tenant": "acme"}, Rate: rate(t, r), Burst: burst}
}

// A subject's own bound goes before that of all, leaves all others alone, and
// ends by itself or when it is withdrawn, by name or with the rule's.
func TestOverrideOfOneSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		p := compile(t, r, overridable(t))
		set := func(o Override) (was Override) {
			t.Helper()
			was, _, err := r.Override(p, o, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return was
		}
		gets := func(key string, want int) {
			t.Helper()
			if n := admitted(r, p, key, 200, time.Now()); n != want {
				t.Errorf("%s gets %d, want %d", key, n, want)
			}
		}
		if was := set(one(t, "a", "30/s", 30)); was.Burst != 10 || was.Subject["key"] != "a" {
			t.Errorf("before it was %+v", was)
		}
		gets("a", 30)
		gets("b", 10)
		// The rule's is that of all others, a sweep forgets nothing, and a reload
		// neither.
		set(Override{Rule: "one", Rate: rate(t, "20/s"), Burst: 20})
		time.Sleep(10 * time.Second)
		r.Sweep(p, time.Now())
		p = compile(t, r, overridable(t))
		gets("a", 30)
		gets("b", 20)
		if st := r.Stand(p, by("a"), time.Now())[0]; st.Limit != 30 {
			t.Errorf("the caller is told of %d", st.Limit)
		}
		if l := level(r, p, "one"); l.Burst != 20 || l.Capacity != 50 {
			t.Errorf("%+v", l)
		}
		// Its time over, it has the rule's.
		ending := one(t, "a", "40/s", 40)
		ending.Until = time.Now().Add(time.Second)
		if was := set(ending); was.Burst != 30 {
			t.Errorf("before it was %+v", was)
		}
		time.Sleep(10 * time.Second)
		gets("a", 20)
		if all := r.Overrides(time.Now()); len(all) != 1 || all[0].Subject != nil {
			t.Errorf("%v", all)
		}
		// Withdrawn by name, and all together.
		set(one(t, "a", "50/s", 50))
		set(one(t, "b", "50/s", 50))
		if ended := r.Withdraw("one", "requests", one(t, "b", "1/s", 1).Subject, time.Now()); len(ended) != 1 || ended[0].Subject["key"] != "b" {
			t.Errorf("withdrew %v", ended)
		}
		time.Sleep(10 * time.Second)
		gets("a", 50)
		gets("b", 20)
		if ended := r.Withdraw("one", "", nil, time.Now()); len(ended) != 2 {
			t.Errorf("withdrew %v", ended)
		}
		time.Sleep(10 * time.Second)
		gets("a", 10)
		gets("b", 10)
		// Nothing is kept of what is over.
		time.Sleep(10 * time.Second)
		r.Sweep(p, time.Now())
		if r.Overrides(time.Now()); r.Cells() != 1 || len(r.overrides.subjects) != 0 { // the cell of the budget
			t.Errorf("%d cells and %d subjects are kept", r.Cells(), len(r.overrides.subjects))
		}
	})
}

func TestOverrideOfOneSubjectMistakes(t *testing.T) {
	r := New()
	p := compile(t, r, overridable(t))
	now := time.Now()
	for want, o := range map[string]Override{
		"has no tenant":           {Rule: "one", Subject: map[string]string{"key": "a"}},
		`is not kept by "user"`:   {Rule: "one", Subject: map[string]string{"key": "a", "tenant": "acme", "user": "u"}},
		"leave the subject out":   {Rule: "two", Dimension: "requests", Subject: map[string]string{"key": "a"}},
		"has no key; name all of": {Rule: "one", Subject: map[string]string{}},
	} {
		o.Rate = rate(t, "1/s")
		if _, _, err := r.Override(p, o, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for i := range mostSubjects {
		if _, _, err := r.Override(p, one(t, fmt.Sprint(i), "1/s", 1), now); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.Override(p, one(t, "another", "1/s", 1), now); err == nil || !strings.Contains(err.Error(), "reset some") {
		t.Error(err)
	}
	if _, _, err := r.Override(p, one(t, "7", "2/s", 1), now); err != nil {
		t.Error("one that is there cannot be changed:", err)
	}
}
