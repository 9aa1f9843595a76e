// Package route orders the legs that a call may take. The decision is a pure
// function of the plan, the model's name and a random draw. Only the hallway
// uses it.
package route

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Choice is where a call may go.
type Choice struct {
	// Model is the configured model that matched: its name or glob, or
	// "provider/*" for a provider addressed directly.
	Model string
	// Legs are the targets in the order in which to try them.
	Legs []fleet.Leg
}

// Order finds the model that a client named and orders its legs: by weight, the
// draw, a random number of 64 bits, deciding. An exact name wins; then
// "provider/model" addresses a provider directly; then the longest glob.
func Order(p *Plan, model string, draw uint64) (Choice, error) {
	if m, ok := p.exact[model]; ok {
		return m.choose(model, draw), nil
	}
	if provider, name, ok := strings.Cut(model, "/"); ok && name != "" && p.providers[provider] {
		return Choice{Model: provider + "/*", Legs: []fleet.Leg{fleet.NewLeg(provider, name, 1)}}, nil
	}
	for _, m := range p.globs {
		if setting.Match(m.name, model) {
			return m.choose(model, draw), nil
		}
	}
	e := fault.New(fault.ModelNotFound, "route.Order", "The model %q does not exist here, or the key may not use it; GET /v1/models lists those it may.", fault.Legible(model))
	e.Param = "model"
	return Choice{}, e
}

type model struct {
	name   string
	legs   []fleet.Leg
	weight uint64 // of all legs
}

// choose draws the first leg by weight; the others follow in configured order.
func (m *model) choose(asked string, draw uint64) Choice {
	if len(m.legs) == 1 && m.legs[0].Model != "" {
		return Choice{Model: m.name, Legs: m.legs}
	}
	legs := slices.Clone(m.legs)
	for i := range legs {
		if legs[i].Model == "" {
			legs[i] = fleet.NewLeg(legs[i].Provider, asked, legs[i].Weight)
		}
	}
	pick, at := 0, draw%m.weight
	for i, l := range legs {
		if at < uint64(l.Weight) {
			pick = i
			break
		}
		at -= uint64(l.Weight)
	}
	first := legs[pick]
	copy(legs[1:pick+1], legs[:pick])
	legs[0] = first
	return Choice{Model: m.name, Legs: legs}
}

// Names lists the exactly named models, sorted, with the provider of the first
// leg of each.
func (p *Plan) Names() []Name { return p.names }

// Name is one model as GET /v1/models lists it.
type Name struct{ Model, Provider string }

// Globs lists the patterns of models that exist beside the exact names.
func (p *Plan) Globs() []string {
	globs := make([]string, len(p.globs))
	for i, m := range p.globs {
		globs[i] = m.name
	}
	return globs
}

// byLength puts the longest glob first; among equals the configured order
// stands.
func byLength(a, b *model) int { return cmp.Compare(len(b.name), len(a.name)) }
