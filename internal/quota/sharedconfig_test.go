package quota

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

func storeURL(t testing.TB, text string) (u StoreURL) {
	t.Helper()
	if err := u.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestStoreConfig(t *testing.T) {
	redis := StoreConfig{Kind: "redis", URL: storeURL(t, "redis://127.0.0.1:6379/0")}
	with := func(change func(*StoreConfig)) StoreConfig {
		c := redis
		change(&c)
		return c
	}
	for _, c := range []struct {
		config StoreConfig
		path   string // "" is right
		says   string
	}{
		{StoreConfig{}, "", ""},
		{StoreConfig{Kind: "memory"}, "", ""},
		{redis, "", ""},
		{with(func(c *StoreConfig) { c.Lease, c.OnOutage, c.Replicas = 100, "strict", 3 }), "", ""},
		{StoreConfig{Kind: "etcd"}, "kind", "memory, redis"},
		{StoreConfig{Kind: "memory", Lease: 5}, "kind", "kind: redis"},
		{StoreConfig{Kind: "redis"}, "url", "redis://"},
		{with(func(c *StoreConfig) { c.Lease = -1 }), "lease", "from 1"},
		{with(func(c *StoreConfig) { c.OnOutage = "panic" }), "on_outage", "local-share, strict, open"},
		{with(func(c *StoreConfig) { c.Timeout = setting.Duration(time.Hour) }), "timeout", "10s"},
		{with(func(c *StoreConfig) { c.Replicas = -3 }), "replicas", "gateways"},
	} {
		var p setting.Problems
		(&Config{Store: c.config}).Validate("quota", &p)
		switch {
		case c.path == "" && len(p) > 0:
			t.Errorf("%+v: %v", c.config, p)
		case c.path != "" && (len(p) != 1 || p[0].Path != "quota.store."+c.path || !strings.Contains(p[0].Message, c.says)):
			t.Errorf("%+v: %v", c.config, p)
		}
	}
	if d := (StoreConfig{}).Default(); d.Kind != "memory" || d.Lease != 100 || d.OnOutage != "local-share" || d.Timeout.Std() != 50*time.Millisecond {
		t.Errorf("defaults: %+v", d)
	}
}

// An address shows no password, whatever it looks like.
func TestStoreURL(t *testing.T) {
	for text, shown := range map[string]string{
		"redis://127.0.0.1:6379/0":                "redis://127.0.0.1:6379/0",
		"redis://:hunter2@host:6379/3":            "redis://[redacted]@host:6379/3",
		"rediss://me:hunter2@host?db=1&x=hunter2": "rediss://[redacted]@host",
		"env:REDIS_URL":                           "env:REDIS_URL",
		"file:/run/secrets/redis":                 "file:/run/secrets/redis",
		"literal:redis://:hunter2@host":           "literal:[redacted]",
	} {
		u := storeURL(t, text)
		if u.String() != shown {
			t.Errorf("%q shows as %q", text, u)
		}
	}
	if got, err := storeURL(t, "redis://:hunter2@host:6379/3").Resolve(); err != nil || got != "redis://:hunter2@host:6379/3" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := storeURL(t, "literal:redis://:hunter2@host").Resolve(); err != nil || got != "redis://:hunter2@host" {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"", "127.0.0.1:6379", "http://hunter2", "redis://", "redis://hunter2:x%zz@host", "hunter2"} {
		var u StoreURL
		if err := u.UnmarshalText([]byte(text)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzStoreURL(f *testing.F) {
	for _, s := range []string{"redis://127.0.0.1:6379/0", "rediss://a:b@h", "env:X", "file:/x", "literal:redis://:p@h", "redis://%zz", "://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var u StoreURL
		if u.UnmarshalText([]byte(text)) != nil {
			return
		}
		if u.IsZero() {
			t.Fatalf("%q was taken and is nothing", text)
		}
		b, err := u.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		// What is shown holds no part of what may be a password.
		if _, rest, ok := strings.Cut(text, "://"); ok && u.plain != "" {
			if user, _, ok := strings.Cut(rest, "@"); ok {
				if _, password, ok := strings.Cut(user, ":"); ok && len(password) > 12 && strings.Contains(string(b), password) {
					t.Fatalf("%q shows as %q", text, b)
				}
			}
		}
	})
}
