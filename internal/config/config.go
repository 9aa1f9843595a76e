// Package config is the table of contents of every room's configuration: it
// lists the sections, decodes a document into them and checks them all. What a
// section means is written beside its type, in its room. app and cli use it.
package config

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headgate-ai/headgate/internal/admin"
	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/config/decode"
	"github.com/headgate-ai/headgate/internal/config/source"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/meter"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/route"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/internal/stream"
	"github.com/headgate-ai/headgate/internal/upstream"
)

// File is a whole configuration.
type File struct {
	// Server is where the gateway listens.
	Server Server `yaml:"server"`
	// Auth is who may call: keys, those with a key; none, everyone, which is for
	// a listener on loopback only.
	Auth string `yaml:"auth"`
	// Providers are the services that answer calls.
	Providers []upstream.ProviderConfig `yaml:"providers"`
	// Models are the models that clients may call.
	Models []route.ModelConfig `yaml:"models"`
	// Tiers are levels of service, which keys and tokens name.
	Tiers map[string]authn.TierConfig `yaml:"tiers"`
	// Keys are the API keys that clients call with.
	Keys []authn.KeyConfig `yaml:"keys"`
	// Keystore is where keys are kept that the gateway itself has made.
	Keystore Keystore `yaml:"keystore"`
	// JWT are the issuers whose tokens are taken beside keys.
	JWT []authn.JWTConfig `yaml:"jwt"`
	// Access is what roles may do, and the conditions that calls must meet.
	Access authn.AccessConfig `yaml:"access"`
	// Prices are what tokens cost, in dollars a million; the first that fits
	// counts.
	Prices meter.Config `yaml:"prices"`
	// Quota is how much calls may use.
	Quota quota.Config `yaml:"quota"`
	// Ledger is where what calls have used and cost is kept for good.
	Ledger ledger.Config `yaml:"ledger"`
	// Stream is how answers travel to clients.
	Stream stream.Config `yaml:"stream"`
	// Journal is what is logged, kept and traced of requests.
	Journal journal.Config `yaml:"journal"`
}

// Server is where the gateway listens.
type Server struct {
	// API is the listener that clients call.
	API edge.Config `yaml:"api"`
	// Admin is the listener for operators.
	Admin admin.Config `yaml:"admin"`
}

// Keystore is where minted keys are kept.
type Keystore struct {
	// Path is the file of the keys that are made with headgate keys or by the
	// admin API. It holds hashes and no keys. A change of it takes effect within
	// a second; without a path there are no such keys. Takes effect at start.
	Path string `yaml:"path"`
}

// Validate notes every mistake.
func (k *Keystore) Validate(path string, p *setting.Problems) {
	if k.Path == "" {
		return
	}
	if i, err := os.Stat(filepath.Dir(k.Path)); err != nil || !i.IsDir() {
		p.Add(path+".path", "the folder %s does not exist; create it", filepath.Dir(k.Path))
	}
}

// Default is the configuration that an empty document means.
func Default() *File {
	return &File{
		Server:  Server{API: edge.Default(), Admin: admin.Default()},
		Auth:    "keys",
		Ledger:  ledger.Default(),
		Stream:  stream.Default(),
		Journal: journal.Default(),
	}
}

// Loaded is a document that has been decoded.
type Loaded struct {
	*File
	Document  source.Document
	Positions decode.Positions
}

// Load decodes and checks a document. Every mistake is reported, with its place.
func Load(doc source.Document) (*Loaded, decode.Mistakes) {
	l := &Loaded{File: Default(), Document: doc}
	var mistakes decode.Mistakes
	l.Positions, mistakes = decode.YAML(doc.Name, doc.Data, l.File)
	if unreadable(mistakes) {
		return nil, mistakes
	}
	var p setting.Problems
	l.Validate(&p)
	if mistakes = merge(mistakes, l.Place(p)); len(mistakes) > 0 {
		return nil, mistakes
	}
	return l, nil
}

// unreadable is whether the document as a whole could not be decoded.
func unreadable(mistakes decode.Mistakes) bool {
	return slices.ContainsFunc(mistakes, func(m decode.Mistake) bool { return m.Path == "" })
}

// merge adds to the mistakes of decoding those that a check found, but for the
// ones that only follow from the former: a field that could not be decoded is
// not also missing.
func merge(decoded, checked decode.Mistakes) decode.Mistakes {
	known := len(decoded)
	for _, c := range checked {
		if !slices.ContainsFunc(decoded[:known], func(d decode.Mistake) bool { return within(c.Path, d.Path) || within(d.Path, c.Path) }) {
			decoded = append(decoded, c)
		}
	}
	slices.SortStableFunc(decoded, func(a, b decode.Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return decoded
}

// within is whether path is at or below top.
func within(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Place finds where in the document the problems lie.
func (l *Loaded) Place(p setting.Problems) decode.Mistakes {
	if len(p) == 0 {
		return nil
	}
	return l.Positions.Place(l.Document.Name, p)
}

// Validate notes every mistake in every section.
func (f *File) Validate(p *setting.Problems) {
	f.Server.API.Validate("server.api", p)
	f.Server.Admin.Validate("server.admin", p)
	f.AuthnConfig().Validate(p)
	if f.Auth == "none" && !setting.Loopback(f.Server.API.Listen) {
		p.Add("auth", "none is for listeners on loopback only, and %q can be reached from other machines; add keys, or listen on 127.0.0.1", f.Server.API.Listen)
	}
	f.Keystore.Validate("keystore", p)
	upstream.Validate(f.Providers, p)
	if len(f.Providers) == 0 {
		p.Add("providers", "there are none; add one, such as {name: openai, dialect: openai, base_url: https://api.openai.com/v1}")
	}
	before := len(*p)
	f.RouteConfig().Validate(p)
	if len(*p) == before {
		f.checkInstead(p)
	}
	f.Prices.Validate("prices", p)
	f.QuotaConfig().Validate("quota", p)
	f.checkMoney(p)
	f.checkWatched(p)
	f.LedgerConfig().Validate("ledger", p)
	f.Stream.Validate("stream", p)
	f.Journal.Validate("journal", p)
}

// AuthnConfig is what the room authn needs of the file.
func (f *File) AuthnConfig() *authn.Config {
	return &authn.Config{Auth: f.Auth, Keys: f.Keys, Tiers: f.Tiers, JWT: f.JWT, Access: f.Access, Minted: f.Keystore.Path != ""}
}

// QuotaConfig is what the room quota needs of the file.
func (f *File) QuotaConfig() *quota.Config {
	c := f.Quota
	c.Tiers = map[string]int64{}
	for name, t := range f.Tiers {
		if t.Concurrent > 0 {
			c.Tiers[name] = int64(t.Concurrent)
		}
	}
	return &c
}

// LedgerConfig is what the room ledger needs of the file. Where no kind is
// named, there is a ledger if there is something to reckon with: prices or
// budgets.
func (f *File) LedgerConfig() *ledger.Config {
	c := f.Ledger
	if c.Kind == "" {
		c.Kind = ledger.KindNone
		if len(f.Prices) > 0 || len(f.Quota.Budgets) > 0 {
			c.Kind = ledger.KindSQLite
		}
	}
	return &c
}

// checkMoney notes budgets of money that nothing would be charged to.
func (f *File) checkMoney(p *setting.Problems) {
	for i, b := range f.Quota.Budgets {
		if b.Limit.USD > 0 && len(f.Prices) == 0 {
			p.Add(setting.Index("quota.budgets", i)+".limit.usd", "there are no prices, so that nothing would cost anything; add prices, such as {model: \"*\", input: 1, output: 2}")
		}
	}
}

// checkWatched notes rules that watch a provider that does not exist.
func (f *File) checkWatched(p *setting.Problems) {
	var known []string
	for _, one := range f.Providers {
		known = append(known, one.Name)
	}
	for i, r := range f.Quota.Rules {
		if r.Watch != "" && !slices.Contains(known, r.Watch) {
			p.Add(setting.Index("quota.rules", i)+".watch", "there is no provider %q; the providers are %s", r.Watch, strings.Join(known, ", "))
		}
	}
}

// checkInstead notes budgets that fall back on a model that does not exist, and so
// would only refuse. The models are right.
func (f *File) checkInstead(p *setting.Problems) {
	plan := f.RouteConfig().Compile()
	for i := range f.Quota.Budgets {
		name := f.Quota.Budgets[i].Instead()
		if name == "" {
			continue
		}
		if _, err := route.Order(&plan, name, 0); err != nil {
			p.Add(setting.Index("quota.budgets", i)+".exhausted", "there is no model %q to call instead; write one that models names, or PROVIDER/MODEL", name)
		}
	}
}

// RouteConfig is what the room route needs of the file.
func (f *File) RouteConfig() *route.Config {
	c := &route.Config{Models: f.Models}
	for _, p := range f.Providers {
		c.Providers = append(c.Providers, p.Name)
	}
	return c
}

// SecretFiles are the files that the configuration's secrets and certificates
// lie in; a change of one of them is a change of the configuration.
func (f *File) SecretFiles() (files []string) {
	add := func(path string) {
		if path != "" {
			files = append(files, path)
		}
	}
	for _, p := range f.Providers {
		for _, c := range p.Credentials {
			add(c.Secret.File())
		}
	}
	for _, k := range f.Keys {
		add(k.Secret.File())
	}
	for i := range f.JWT {
		add(f.JWT[i].Secret.File())
		add(f.JWT[i].File())
	}
	add(f.Ledger.URL.File())
	add(f.Quota.Store.URL.File())
	add(f.Server.Admin.Token.File())
	add(f.Server.API.TLS.TicketKeys.File())
	add(f.Server.API.TLS.Cert)
	add(f.Server.API.TLS.Key)
	return files
}
