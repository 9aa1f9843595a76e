package authn

import (
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Grant is who a credential stands for and what it may do. It never changes.
type Grant struct {
	llm.Principal
	roles   []string
	claims  map[string]any
	class   string
	models  []string // nil is all, empty is none
	scopes  []string // nil is all, empty is none
	expires time.Time
}

// Roles are the principal's roles. The caller does not change them.
func (g *Grant) Roles() []string { return g.roles }

// Claims are those of the token, as JSON decodes them; nil for an API key. The
// caller does not change them.
func (g *Grant) Claims() map[string]any { return g.claims }

// MayUse is whether the grant covers a model, by the name the client called.
func (g *Grant) MayUse(model string) bool {
	if g.models == nil {
		return true
	}
	for _, glob := range g.models {
		if setting.Match(glob, model) {
			return true
		}
	}
	return false
}

func (g *Grant) may(scope string) bool { return g.scopes == nil || anyCovers(g.scopes, scope) }

func anyCovers(have []string, want string) bool {
	for _, h := range have {
		if covers(h, want) {
			return true
		}
	}
	return false
}
