package admin

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

// Degradation is how far the gateway, or one model, is turned down: 0 is not at all; at 3 it
// refuses the requests of class P2. The levels 1, to leave optional work out, and
// 2, to use small models and cached answers, are shown, and what listens to
// them is up to the parts of the gateway that can.
type Degradation interface {
	// Level is the level of a configured model, or of all where it is "", that
	// holds at a time, and until when.
	Level(model string, now time.Time) (level int, until time.Time)
	// Models are those that have a level of their own.
	Models(now time.Time) []string
	// Set sets the level until a time, from which on it is 0.
	Set(model string, level int, until time.Time)
}

// maxDegradation is the highest level, and longestDegradation how long one may
// hold: what lasts longer belongs into the configuration.
const (
	maxDegradation     = 3
	longestDegradation = setting.Duration(7 * 24 * time.Hour)
)

type levelNow struct {
	Model string    `json:"model,omitempty"`
	Level int       `json:"level"`
	Until time.Time `json:"until,omitzero"`
}

func (g *server) levelNow(model string, now time.Time) levelNow {
	level, until := g.Degradation.Level(model, now)
	return levelNow{model, level, until}
}

func (g *server) degradation(w http.ResponseWriter, _ *http.Request) {
	now, models := time.Now(), []levelNow{}
	for _, model := range g.Degradation.Models(now) {
		models = append(models, g.levelNow(model, now))
	}
	write(w, http.StatusOK, struct {
		levelNow
		Models []levelNow `json:"models"`
	}{g.levelNow("", now), models})
}

func (g *server) degrade(w http.ResponseWriter, r *http.Request) {
	var want struct {
		Level  *int             `json:"level"`
		Model  string           `json:"model"`
		TTL    setting.Duration `json:"ttl"`
		Reason string           `json:"reason"`
	}
	c, ok := g.begin(w, r, "degrade", "", &want)
	if !ok {
		return
	}
	switch {
	case want.Level == nil || *want.Level < 0 || *want.Level > maxDegradation:
		c.fail(refuse(http.StatusUnprocessableEntity, "level is a number from 0, not at all, to %d", maxDegradation))
		return
	case *want.Level > 0 && (want.TTL <= 0 || want.TTL > longestDegradation):
		c.fail(refuse(http.StatusUnprocessableEntity, "ttl is how long the level holds, such as 15m, at most %s", longestDegradation.Std()))
		return
	case want.Model != "" && !slices.Contains(g.Models(), want.Model):
		c.fail(refuse(http.StatusUnprocessableEntity, "there is no model %q in the configuration; models are %s", want.Model, strings.Join(g.Models(), ", ")))
		return
	case want.Reason == "":
		c.fail(refuse(http.StatusUnprocessableEntity, "reason is missing; write why the gateway is turned down or up"))
		return
	}
	if *want.Level == maxDegradation && !c.confirmed(want.Reason) {
		return
	}
	g.setting.Lock()
	defer g.setting.Unlock()
	c.target = want.Model
	old := g.levelNow(want.Model, time.Now())
	g.Degradation.Set(want.Model, *want.Level, time.Now().Add(want.TTL.Std()))
	is := g.levelNow(want.Model, time.Now())
	c.done(http.StatusOK, Entry{Old: old, New: is, Reason: want.Reason}, is)
}
