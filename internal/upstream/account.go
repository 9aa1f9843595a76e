package upstream

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/wire/allowance"
)

// account is what a provider has told of its limits for one of our credentials,
// by model: providers count by both. Nothing acts on it yet; operators see it.
type account struct {
	mu     sync.RWMutex
	models map[string]*told
}

// told is the latest that was told of one model.
type told struct {
	mu     sync.Mutex
	report allowance.Report
	at     time.Time
}

// accountKey finds an account again after a reload. The credential itself is
// not kept for that.
type accountKey struct {
	provider   string
	credential [sha256.Size]byte
}

// Names of models may come from clients, so the number that is kept of each
// account is bounded; all others are one.
const (
	mostModels  = 256
	otherModels = "(others)"
)

func (a *account) of(model string) *told {
	a.mu.RLock()
	t := a.models[model]
	a.mu.RUnlock()
	if t != nil {
		return t
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.models) >= mostModels {
		model = otherModels
	}
	if t = a.models[model]; t == nil {
		t = &told{report: allowance.Nothing()}
		a.models[strings.Clone(model)] = t // it may lie in a buffer of the call
	}
	return t
}

// learn takes up what an answer says of the provider's limits.
func (r *Reply) learn(q *Request) {
	now := time.Now()
	report, ok := allowance.Read(r.StatusCode, r.Header, now)
	if !ok {
		return
	}
	t := q.account.of(q.Model)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Add(&report)
	t.at = now
}

// Allowance is how a provider says we stand against its limits, with one
// credential and for one model.
type Allowance struct {
	// Credential is its place in the configuration, from 1; 0 where the provider
	// needs none.
	Credential int
	Model      string // its name at the provider
	// Report is what was told until At, as it stands now.
	allowance.Report
	At time.Time
}

// Allowances lists what the provider has told, by credential and model.
func (p *Provider) Allowances(now time.Time) []Allowance {
	all := p.keyless.list(nil, 0, now)
	for i := range p.credentials {
		all = p.credentials[i].account.list(all, i+1, now)
	}
	slices.SortFunc(all, func(a, b Allowance) int {
		return cmp.Or(cmp.Compare(a.Credential, b.Credential), strings.Compare(a.Model, b.Model))
	})
	return all
}

// list appends what was told to the account of a credential.
func (a *account) list(all []Allowance, credential int, now time.Time) []Allowance {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for model, t := range a.models {
		t.mu.Lock()
		one := Allowance{Credential: credential, Model: model, Report: t.report, At: t.at}
		t.mu.Unlock()
		for u := range one.Limits {
			one.Limits[u] = one.Limits[u].At(now)
		}
		if !now.Before(one.Retry) {
			one.Retry = time.Time{}
		}
		all = append(all, one)
	}
	return all
}

// account finds or makes the account of a provider's credential, "" for none.
func (r *Room) account(provider, credential string) *account {
	key := accountKey{provider, sha256.Sum256([]byte(credential))}
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.accounts[key]
	if a == nil {
		a = &account{models: map[string]*told{}}
		r.accounts[key] = a
	}
	return a
}

// keepAccounts forgets the accounts that a plan does not use.
func (r *Room) keepAccounts(p *Plan) {
	used := map[*account]bool{}
	for _, provider := range p.providers {
		used[provider.keyless] = true
		for i := range provider.credentials {
			used[provider.credentials[i].account] = true
		}
	}
	for key, a := range r.accounts {
		if !used[a] {
			delete(r.accounts, key)
		}
	}
}
