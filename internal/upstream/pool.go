package upstream

import (
	"bytes"
	"maps"
	"time"

	"github.com/headgate-ai/headgate/internal/fleet"
)

// poolKey is what of a provider's configuration concerns its connections.
type poolKey struct {
	base      string // scheme and host
	connect   time.Duration
	maxConns  int
	transport string
}

// pool is the connections to one provider.
type pool struct {
	key poolKey
	carrier
}

// Idle connections are kept for less than the 60 s after which common servers
// and load balancers close theirs.
const (
	idlePerHost = 1024
	idleTimeout = 30 * time.Second
	// maxHead bounds a provider's response header.
	maxHead = 256 << 10
)

// pool finds or makes the pool of a provider. A pool whose key has changed is
// replaced; the requests on it keep their connections until they end.
func (r *Room) pool(name string, key poolKey) *pool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pools[name]; p != nil {
		if p.key == key {
			return p
		}
		p.CloseIdleConnections()
	}
	p := &pool{key, newCarrier(key)}
	r.pools[name] = p
	return p
}

// Keep closes the idle connections of providers that are not in the plan any
// more, and forgets what those had told.
func (r *Room) Keep(p *Plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, old := range r.pools {
		if p.providers[name] == nil {
			old.CloseIdleConnections()
			delete(r.pools, name)
			delete(r.pulses, name)
		}
	}
	r.keepAccounts(p)
}

// pulse finds or makes the pulse of a provider.
func (r *Room) pulse(name string) *fleet.Pulse {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pulses[name]
	if p == nil {
		p = new(fleet.Pulse)
		r.pulses[name] = p
	}
	return p
}

// Pulses are those of the providers, by name.
func (r *Room) Pulses() map[string]*fleet.Pulse {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.pulses)
}

// Close closes all idle connections.
func (r *Room) Close() { r.Keep(&Plan{}) }

func replaceAll(text []byte, secret, with string) []byte {
	if secret == "" || !bytes.Contains(text, []byte(secret)) {
		return text
	}
	return bytes.ReplaceAll(text, []byte(secret), []byte(with))
}
