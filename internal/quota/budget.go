package quota

import (
	"sort"
	"time"

	"github.com/headgate-ai/headgate/internal/meter"
)

// budget is an amount for each period of the calendar.
type budget struct {
	limit, soft int64 // in tokens or nano-dollars; soft 0 is none
	softTokens  int64 // of a budget of money: as many tokens of an answer as must be left
	period      period
	zone        *time.Location
	exhausted   exhausted
	topUp       string // the page where it can be raised
}

// purse is what a cell keeps of a budget. All is of the period that began at
// from; what is under way belongs to the period that it was reserved in.
type purse struct {
	from, until    int64 // nanoseconds since 1970
	used, reserved int64
}

// period is how often a budget begins anew.
type period uint8

const (
	perMinute period = iota
	perHour
	perDay
	perWeek
	perMonth
	forGood // once and for all
)

var periods = map[string]period{"minute": perMinute, "hour": perHour, "day": perDay, "week": perWeek, "month": perMonth, "none": forGood}

// around is the period that a time lies in. Weeks begin on Monday (ISO 8601).
func (p period) around(t time.Time) (from, until time.Time) {
	y, m, d := t.Date()
	zone := t.Location()
	switch p {
	case perMinute:
		from = t.Truncate(time.Minute) // every zone's minutes begin together
		return from, from.Add(time.Minute)
	case perHour:
		from = t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
		return from, from.Add(time.Hour)
	case perDay:
		return time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone)
	case perWeek:
		d -= (int(t.Weekday()) + 6) % 7
		return time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+7, 0, 0, 0, 0, zone)
	case perMonth:
		return time.Date(y, m, 1, 0, 0, 0, 0, zone), time.Date(y, m+1, 1, 0, 0, 0, 0, zone)
	}
	return time.Unix(0, 0), time.Unix(0, endOfTime)
}

// endOfTime is in the year 2262.
const endOfTime = int64(^uint64(0) >> 1)

// turn begins a new period if it is time to.
func (b *budget) turn(s *state, now int64) {
	if now < s.purse.until {
		return
	}
	from, until := b.period.around(time.Unix(0, now).In(b.zone))
	s.purse = purse{from: from.UnixNano(), until: until.UnixNano()}
}

func (b *budget) left(s *state) int64 { return b.limit - s.purse.used - s.purse.reserved }

// low is whether so much left is less than the soft limit, at the price of a call.
func (b *budget) low(left int64, p *meter.Price) bool {
	return b.soft > 0 && left < b.soft || b.softTokens > 0 && left < int64(p.Bound(0, b.softTokens))
}

// wait is how long until n is there: 0, until the next period, or never.
func (b *budget) wait(s *state, n, now int64) int64 {
	b.turn(s, now)
	switch {
	case n <= b.left(s) && b.left(s) > 0:
		return 0
	case n > b.limit || b.period == forGood:
		return never
	}
	return s.purse.until - now
}

// reserve sets n aside, and tells of which period.
func (b *budget) reserve(s *state, n, now int64) (period int64) {
	b.turn(s, now)
	s.purse.reserved += n
	return s.purse.from
}

func (b *budget) canExtend(s *state, period, more int64) bool {
	return s.purse.from != period || more <= b.left(s)
}

func (b *budget) extend(s *state, period, more int64) {
	if s.purse.from == period {
		s.purse.reserved += more
	}
}

// settle puts what was used in the place of what was reserved, unless the
// period is over: then it counts there and no more here.
func (b *budget) settle(s *state, period, reserved, actual int64) {
	if s.purse.from == period {
		s.purse.reserved -= reserved
		s.purse.used += actual
	}
}

// restore sets what has been used of a period that is still running.
func (b *budget) restore(s *state, period, used, now int64) {
	if b.turn(s, now); s.purse.from == period {
		s.purse.used = used
	}
}

// leastTrimmed is the shortest answer that is worth asking for.
const leastTrimmed = 16

// trim shortens the answer that is reckoned with to what the budgets allow that
// say so.
func (h *Hold) trim() {
	most := h.output
	for i := range h.taken {
		t := &h.taken[i]
		if b := t.limit.budget; b != nil && b.exhausted.trim && b.wait(&t.cell.state, t.n, h.begun) != 0 {
			most = min(most, h.affordable(t.limit, b.left(&t.cell.state)))
		}
	}
	if most == h.output || most < leastTrimmed {
		return
	}
	h.output, h.WayOut = most, &WayOut{Trimmed: most}
	for i := range h.taken {
		h.taken[i].n = h.taken[i].limit.need(h.price, h.input, h.output)
	}
}

// promptFor is the longest prompt for which so much is enough, with a short
// answer.
func (h *Hold) promptFor(l *limit, left int64) int64 {
	answer := min(h.output, shortAnswer)
	return int64(sort.Search(int(h.input), func(input int) bool { return l.need(h.price, int64(input)+1, answer) > left }))
}

// shortAnswer is the answer that a shortened prompt leaves room for, in tokens.
const shortAnswer = 256

// affordable is the longest answer for which so much is enough.
func (h *Hold) affordable(l *limit, left int64) int64 {
	n := sort.Search(int(h.output), func(output int) bool { return l.need(h.price, h.input, int64(output)+1) > left })
	return int64(n)
}
