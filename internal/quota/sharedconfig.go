package quota

import (
	"errors"
	"net/url"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

// The kinds of store.
const (
	StoreMemory = "memory"
	StoreRedis  = "redis"
)

// StoreConfig is where counts are kept.
type StoreConfig struct {
	// Kind is memory, the gateway's own; or redis, which several gateways share.
	// Default memory. Takes effect at start.
	Kind string `yaml:"kind"`
	// URL is where Redis is: redis://HOST:PORT/DATABASE, with TLS rediss://HOST,
	// or a reference such as env:REDIS_URL where it holds a password. Takes
	// effect at start.
	URL StoreURL `yaml:"url"`
	// Lease is for how many further calls Redis is asked at once, as long as there
	// is plenty; near a limit it is asked for each. Default 100. Takes effect at
	// start.
	Lease int `yaml:"lease"`
	// OnOutage is what happens while Redis cannot be reached: local-share, each
	// gateway keeps its part of every limit, after a second and a half in which it
	// lets no more through than one lease; strict, no call that a limit concerns is
	// let through; open, every call is. Default local-share. Takes effect at start.
	OnOutage string `yaml:"on_outage"`
	// Timeout is how long a call may wait for Redis. All gateways need the same.
	// Default 50ms. Takes effect at start.
	Timeout setting.Duration `yaml:"timeout"`
	// Replicas is among how many gateways local-share divides the limits; 0 is as
	// many as were heard of when Redis was there. Default 0. Takes effect at
	// start.
	Replicas int `yaml:"replicas"`
}

// The defaults of a store, and the bounds of what makes sense.
const (
	defaultLease   = 100
	mostLease      = 100_000
	defaultTimeout = setting.Duration(50 * time.Millisecond)
	leastTimeout   = setting.Duration(time.Millisecond)
	mostTimeout    = setting.Duration(10 * time.Second)
	mostReplicas   = 10_000
)

// Default fills in what the configuration leaves open.
func (c StoreConfig) Default() StoreConfig {
	if c.Kind == "" {
		c.Kind = StoreMemory
	}
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.OnOutage == "" {
		c.OnOutage = localShare.String()
	}
	return c
}

func (c *StoreConfig) validate(path string, p *setting.Problems) {
	switch c.Kind {
	case "", StoreMemory:
		if *c != (StoreConfig{Kind: c.Kind}) {
			p.Add(path+".kind", "is memory, which has no settings; write kind: redis, or take out the others")
		}
		return
	case StoreRedis:
		if c.URL.IsZero() {
			p.Add(path+".url", "is missing; write where Redis is, such as redis://127.0.0.1:6379/0 or env:REDIS_URL")
		}
	default:
		p.Add(path+".kind", "unknown store %q; known stores are memory, redis", c.Kind)
	}
	if c.Lease < 0 || c.Lease > mostLease {
		p.Add(path+".lease", "%d is not a number of calls to ask for at once; write one from 1 to %d", c.Lease, mostLease)
	}
	if _, ok := outages[c.OnOutage]; !ok {
		p.Add(path+".on_outage", "unknown policy %q; known policies are local-share, strict, open", c.OnOutage)
	}
	if c.Timeout != 0 && (c.Timeout < leastTimeout || c.Timeout > mostTimeout) {
		p.Add(path+".timeout", "%s is no time to wait for Redis; write one from %s to %s", c.Timeout.Std(), leastTimeout.Std(), mostTimeout.Std())
	}
	if c.Replicas < 0 || c.Replicas > mostReplicas {
		p.Add(path+".replicas", "%d is not a number of gateways; write one from 1 to %d, or 0 for as many as are heard of", c.Replicas, mostReplicas)
	}
}

// StoreURL is the address of a store, or a reference to it. As it may hold a
// password, it is shown without one.
type StoreURL struct {
	plain string
	ref   setting.Secret
}

var errStoreURL = errors.New("not the address of a store; write redis://HOST:PORT/DATABASE, rediss://HOST:PORT, or a reference such as env:REDIS_URL")

// UnmarshalText takes an address or a reference. It never repeats what it could
// not read.
func (u *StoreURL) UnmarshalText(b []byte) error {
	var ref setting.Secret
	if ref.UnmarshalText(b) == nil {
		*u = StoreURL{ref: ref}
		return nil
	}
	text := string(b)
	at, err := url.Parse(text)
	if err != nil || at.Host == "" || at.Scheme != "redis" && at.Scheme != "rediss" {
		return errStoreURL
	}
	*u = StoreURL{plain: text}
	return nil
}

// String shows the address without what may be secret.
func (u StoreURL) String() string {
	if u.plain == "" {
		return u.ref.String()
	}
	at, err := url.Parse(u.plain)
	if err != nil {
		return "[redacted]"
	}
	shown := at.Scheme + "://" + at.Host + at.Path
	if at.User != nil {
		shown = at.Scheme + "://[redacted]@" + at.Host + at.Path
	}
	return shown
}

// GoString keeps %#v from showing a password.
func (u StoreURL) GoString() string { return u.String() }

// MarshalText shows the address without what may be secret.
func (u StoreURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// IsZero is whether none was given.
func (u StoreURL) IsZero() bool { return u.plain == "" && u.ref.IsZero() }

// File is the path of the file that holds the address, "" where none does.
func (u StoreURL) File() string { return u.ref.File() }

// Resolve is the address itself.
func (u StoreURL) Resolve() (string, error) {
	if u.plain != "" {
		return u.plain, nil
	}
	return u.ref.Resolve()
}
