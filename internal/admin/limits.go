package admin

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/setting"
)

// levelView is one limit: its bound, and how full its cells are together.
// Amounts of money are dollars.
type levelView struct {
	Rule      string `json:"rule"`
	Dimension string `json:"dimension"`
	Budget    bool   `json:"budget"`
	// Rate and Burst are the bound of each cell; absent for budgets and for what
	// each credential brings.
	Rate     string          `json:"rate,omitempty"`
	Burst    int64           `json:"burst,omitzero"`
	Override *quota.Override `json:"override,omitempty"`
	// Adapted is what was declared of a limit that moves, and what moves it; Rate
	// and Burst are then what that comes to.
	Adapted    *quota.Adapted `json:"adapted,omitempty"`
	Cells      int            `json:"cells"`
	Capacity   any            `json:"capacity"`
	Available  any            `json:"available"`
	FillRate   float64        `json:"fill_rate"`
	FillRatio  float64        `json:"fill_ratio"`
	Admitted   int64          `json:"admitted"`
	Refused    int64          `json:"refused"`
	WouldRefus int64          `json:"shadow_refused"`
}

// FillRatio is the part that is left of a limit; all of it where nothing is
// kept.
func FillRatio(l *quota.Level) float64 {
	if l.Capacity <= 0 {
		return 1
	}
	return float64(l.Available) / float64(l.Capacity)
}

func viewOf(l *quota.Level, overrides []quota.Override) levelView {
	amount := func(n int64) any {
		if l.Dimension == "money" {
			return llm.Money(n)
		}
		return n
	}
	v := levelView{
		Rule: l.Rule, Dimension: l.Dimension, Budget: l.Budget, Rate: l.Rate.String(), Burst: l.Burst, Cells: l.Cells,
		Capacity: amount(l.Capacity), Available: amount(l.Available), FillRate: l.PerSecond, FillRatio: FillRatio(l),
		Adapted: l.Adapted, Admitted: l.Admitted, Refused: l.Refused, WouldRefus: l.WouldRefuse,
	}
	for i := range overrides {
		if o := &overrides[i]; l.Overridden && o.Subject == nil && o.Rule == l.Rule && o.Dimension == l.Dimension {
			v.Override = o
		}
	}
	return v
}

// mostTop bounds how many of the busiest subjects are listed.
const mostTop = 1000

func (g *server) limits(w http.ResponseWriter, r *http.Request) {
	top, ok := number(w, r, "top", 0, mostTop)
	if !ok {
		return
	}
	now, plan := time.Now(), g.Plan()
	overrides := g.Quota.Overrides(now)
	limits := []levelView{}
	for _, l := range g.Quota.Levels(plan, now) {
		limits = append(limits, viewOf(&l, overrides))
	}
	answer := map[string]any{"limits": limits, "overrides": overrides}
	if top > 0 {
		answer["top"] = busiest(g.Quota.Top(plan, top, now))
	}
	write(w, http.StatusOK, answer)
}

type topView struct {
	Cell     string `json:"cell"`
	Limit    int64  `json:"limit"`
	Used     int64  `json:"used"`
	UnderWay int    `json:"under_way"`
}

func busiest(all []quota.Top) []topView {
	views := make([]topView, len(all))
	for i, t := range all {
		views[i] = topView(t)
	}
	return views
}

// wantedLimit is the body of PUT /admin/v1/limits/{rule}.
type wantedLimit struct {
	Dimension string `json:"dimension"`
	// Subject is the one that it is for; all of the rule's where it is absent.
	Subject map[string]string `json:"subject"`
	Rate    setting.Rate      `json:"rate"`
	Burst   int64             `json:"burst"`
	TTL     setting.Duration  `json:"ttl"`
	Reason  string            `json:"reason"`
}

func (g *server) setLimit(w http.ResponseWriter, r *http.Request) {
	var want wantedLimit
	rule := r.PathValue("rule")
	c, ok := g.begin(w, r, "limits.set", rule, &want)
	if !ok {
		return
	}
	if want.Reason == "" {
		c.fail(refuse(http.StatusUnprocessableEntity, "reason is missing; write why the limit is changed"))
		return
	}
	now := time.Now()
	o := quota.Override{Rule: rule, Dimension: want.Dimension, Subject: want.Subject, Rate: want.Rate, Burst: want.Burst}
	if want.TTL > 0 {
		o.Until = now.Add(want.TTL.Std())
	}
	o, err := g.Plan().Check(o, now)
	if err != nil {
		c.fail(refuse(http.StatusUnprocessableEntity, "%s", err))
		return
	}
	if !c.confirmed(want.Reason) {
		return
	}
	c.target = rule + "/" + o.Dimension
	g.setting.Lock()
	defer g.setting.Unlock()
	was, is, err := g.Quota.Override(g.Plan(), o, time.Now())
	if err != nil {
		c.fail(refuse(http.StatusUnprocessableEntity, "%s", err))
		return
	}
	c.done(http.StatusOK, Entry{Old: was, New: is, Reason: want.Reason}, map[string]any{"old": was, "new": is})
}

func (g *server) resetLimit(w http.ResponseWriter, r *http.Request) {
	rule, q := r.PathValue("rule"), r.URL.Query()
	c, ok := g.begin(w, r, "limits.reset", rule, nil)
	if !ok {
		return
	}
	subject, err := subjectOf(q["subject"])
	if err != nil {
		c.fail(err)
		return
	}
	covered := func(o quota.Override) bool { return o.Covered(rule, q.Get("dimension"), subject) }
	if !slices.ContainsFunc(g.Quota.Overrides(time.Now()), covered) {
		c.fail(refuse(http.StatusNotFound, "no such override of the rule %q holds; GET /admin/v1/limits lists those that do", rule))
		return
	}
	if !c.confirmed(q.Get("reason")) {
		return
	}
	g.setting.Lock()
	defer g.setting.Unlock()
	ended := g.Quota.Withdraw(rule, q.Get("dimension"), subject, time.Now())
	c.done(http.StatusOK, Entry{Old: ended, Reason: q.Get("reason")}, map[string]any{"withdrawn": ended})
}

// subjectOf reads the parameters that name a subject, such as key=web and
// tenant=acme; nil where there are none.
func subjectOf(pairs []string) (map[string]string, error) {
	var subject map[string]string
	for _, pair := range pairs {
		dim, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, refuse(http.StatusBadRequest, "subject %q is not one; write what the rule is kept by and its value, such as subject=key%%3Dweb&subject=tenant%%3Dacme", pair)
		}
		if subject == nil {
			subject = map[string]string{}
		}
		subject[dim] = value
	}
	return subject, nil
}
