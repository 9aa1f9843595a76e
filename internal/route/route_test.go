package route_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/route"
	"github.com/headgate-ai/headgate/internal/setting"
)

func plan(t *testing.T) route.Plan {
	t.Helper()
	c := route.Config{Providers: []string{"a", "b"}, Models: []route.ModelConfig{
		{Name: "chat", Targets: []route.TargetConfig{{Provider: "a", Model: "small", Weight: 1}}},
		{Name: "g*", Targets: []route.TargetConfig{{Provider: "b", Weight: 1}}},
		{Name: "gpt-*", Targets: []route.TargetConfig{{Provider: "a", Weight: 1}}},
		{Name: "gpt-4*", Targets: []route.TargetConfig{{Provider: "b", Weight: 1}}},
		{Name: "gpt-4o", Targets: []route.TargetConfig{{Provider: "a", Weight: 1}}},
		{Name: "a/chat", Targets: []route.TargetConfig{{Provider: "b", Model: "x", Weight: 1}}},
		{Name: "spread", Targets: []route.TargetConfig{{Provider: "a", Model: "one", Weight: 1}, {Provider: "b", Model: "two", Weight: 3}, {Provider: "a", Model: "three", Weight: 6}}},
	}}
	var p setting.Problems
	if c.Validate(&p); len(p) > 0 {
		t.Fatal(p)
	}
	return c.Compile()
}

func TestOrder(t *testing.T) {
	p := plan(t)
	for asked, want := range map[string]string{
		"chat":        "chat → a/small",
		"gpt-4o":      "gpt-4o → a/gpt-4o",
		"gpt-4o-mini": "gpt-4* → b/gpt-4o-mini",
		"gpt-3":       "gpt-* → a/gpt-3",
		"gemma":       "g* → b/gemma",
		"b/org/m:tag": "b/* → b/org/m:tag",
		"a/gpt-4o":    "a/* → a/gpt-4o",
		"a/chat":      "a/chat → b/x",
		"a/":          "",
		"/chat":       "",
		"c/chat":      "",
		"Chat":        "",
		"":            "",
		"chat ":       "",
	} {
		choice, err := route.Order(&p, asked, 0)
		got := ""
		if err == nil {
			got = choice.Model + " → " + choice.Legs[0].Target()
		} else if fault.KindOf(err) != fault.ModelNotFound || fault.Of(err).Param != "model" {
			t.Errorf("%q: %v", asked, err)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", asked, got, want)
		}
	}
	if _, err := route.Order(&p, strings.Repeat("é", 1000), 0); len(err.Error()) > 500 {
		t.Errorf("%d bytes of message", len(err.Error()))
	}
	if names := p.Names(); len(names) != 4 || names[0].Model != "a/chat" || names[1].Model != "chat" {
		t.Errorf("%v", names)
	}
	if globs := p.Globs(); !slices.Equal(globs, []string{"gpt-4*", "gpt-*", "g*"}) {
		t.Errorf("%v", globs)
	}
}

// The draw decides by weight, every target stays a leg, and the plan is left
// as it was.
func TestWeights(t *testing.T) {
	p := plan(t)
	first := map[string]int{}
	for draw := range uint64(1000) {
		choice, err := route.Order(&p, "spread", draw)
		if err != nil {
			t.Fatal(err)
		}
		first[choice.Legs[0].Model]++
		all := map[string]bool{}
		for _, l := range choice.Legs {
			all[l.Model] = true
		}
		if len(choice.Legs) != 3 || len(all) != 3 {
			t.Fatalf("draw %d: %v", draw, choice.Legs)
		}
	}
	if got := fmt.Sprint(first); got != "map[one:100 three:600 two:300]" {
		t.Error(got)
	}
}

func TestMistakes(t *testing.T) {
	ok := []route.TargetConfig{{Provider: "a", Weight: 1}}
	for want, m := range map[string][]route.ModelConfig{
		"needs a name":        {{Name: "two words", Targets: ok}},
		"is already the name": {{Name: "x", Targets: ok}, {Name: "x", Targets: ok}},
		"there are none":      {{Name: "x"}},
		"unknown provider":    {{Name: "x", Targets: []route.TargetConfig{{Provider: "z", Weight: 1}}}},
		"is not a weight":     {{Name: "x", Targets: []route.TargetConfig{{Provider: "a"}}}},
		"is a glob":           {{Name: "x", Targets: []route.TargetConfig{{Provider: "a", Model: "y*", Weight: 1}}}},
	} {
		var p setting.Problems
		(&route.Config{Models: m, Providers: []string{"a"}}).Validate(&p)
		if len(p) != 1 || !strings.Contains(p[0].Message, want) {
			t.Errorf("%q: %v", want, p)
		}
	}
}
