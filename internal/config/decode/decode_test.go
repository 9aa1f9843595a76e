package decode

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

type sample struct {
	Server    server            `yaml:"server"`
	Providers []provider        `yaml:"providers"`
	Labels    map[string]string `yaml:"labels"`
	Limits    map[string]limits `yaml:"limits"`
	Expires   time.Time         `yaml:"expires"`
	Policy    policy            `yaml:"policy"`
	Extra     any               `yaml:"extra"`
	Loose     *limits           `yaml:"loose"`
	Shared    `yaml:",inline"`
	Hidden    string
}

type Shared struct {
	Auth string `yaml:"auth"`
}

type server struct {
	Listen  string           `yaml:"listen"`
	MaxBody setting.Size     `yaml:"max_body"`
	Grace   setting.Duration `yaml:"grace"`
	Port    uint16           `yaml:"port"`
	Debug   bool             `yaml:"debug"`
	Ratio   float64          `yaml:"ratio"`
	Wait    time.Duration    `yaml:"wait"`
}

type provider struct {
	Name        string            `yaml:"name"`
	Weight      int               `yaml:"weight"`
	Credentials []credential      `yaml:"credentials"`
	Timeouts    timeouts          `yaml:"timeouts"`
	Headers     map[string]string `yaml:"headers"`
}

func (p *provider) SetDefaults() { p.Weight = 1; p.Timeouts.Total = setting.Duration(time.Minute) }

type credential struct {
	Secret setting.Secret `yaml:"secret"`
}

type timeouts struct {
	Connect setting.Duration `yaml:"connect"`
	Total   setting.Duration `yaml:"total"`
}

type limits struct {
	Max int8 `yaml:"max"`
}

type policy struct {
	Kind string
	Fair struct {
		Share int `yaml:"share"`
	}
}

func (p *policy) DecodeSetting(n *Node) {
	if kind, ok := n.Text(); ok {
		p.Kind = kind
		return
	}
	p.Kind, _ = n.Field("kind")
	if p.Kind != "fair" {
		n.Fail("kind", "unknown kind %q; known kinds are fair", p.Kind)
		return
	}
	n.Into(&p.Fair, "kind")
}

func TestValues(t *testing.T) {
	const text = "\ufeff" + `
server:
  listen: :8080
  max_body: 64KiB
  port: 0x10
  debug: true
  ratio: 1e-1
  wait: 2s
providers:
  - name: a
    credentials: [{secret: env:KEY}]
    timeouts: &t {connect: 2s}
    headers: {X-Version: 1.10, "x.y": "yes"}
  - name: 7
    weight: 3
    timeouts:
      <<: *t
      total: 5s
labels: {zone: here}
limits: {b: {max: -128}}
expires: 2027-01-31
policy: {kind: fair, share: 4}
extra: {a: [1, 2.5, x, true, null]}
loose: {max: 1}
auth: none
`
	got := sample{
		Server: server{Grace: setting.Duration(time.Second), Listen: "default"},
		Labels: map[string]string{"kept": "yes", "zone": "default"},
	}
	shared := got.Labels
	p, ms := YAML("f.yaml", []byte(text), &got)
	if len(ms) > 0 {
		t.Fatal(ms)
	}
	want := sample{
		Server: server{":8080", 64 << 10, setting.Duration(time.Second), 16, true, 0.1, 2 * time.Second},
		Providers: []provider{
			{
				Name: "a", Weight: 1, Credentials: []credential{{setting.NewSecret("env:KEY")}},
				Timeouts: timeouts{setting.Duration(2 * time.Second), setting.Duration(time.Minute)},
				Headers:  map[string]string{"X-Version": "1.10", "x.y": "yes"},
			},
			{Name: "7", Weight: 3, Timeouts: timeouts{setting.Duration(2 * time.Second), setting.Duration(5 * time.Second)}},
		},
		Labels:  map[string]string{"kept": "yes", "zone": "here"},
		Limits:  map[string]limits{"b": {-128}},
		Expires: time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC),
		Policy:  policy{Kind: "fair"},
		Extra:   map[string]any{"a": []any{int64(1), 2.5, "x", true, nil}},
		Loose:   &limits{1},
		Shared:  Shared{"none"},
	}
	want.Policy.Fair.Share = 4
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if shared["zone"] != "default" {
		t.Error("the map of the defaults was changed")
	}
	for path, want := range map[string]bool{
		"server.listen": true, "server.grace": false, "providers[1].timeouts.connect": true,
		"providers[0].timeouts.total": false, `providers[0].headers["x.y"]`: true, "auth": true, "nowhere": false,
	} {
		if p.Set(path) != want {
			t.Errorf("Set(%q) = %v", path, !want)
		}
	}
}

func TestEmpty(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "\n\n", "providers:\n", "labels: ~\n", "%YAML 1.2\n---\nauth: x\n"} {
		got := sample{Labels: map[string]string{"a": "b"}}
		p, ms := YAML("f", []byte(text), &got)
		if len(ms) > 0 || got.Labels["a"] != "b" || p.Set("providers") || p.Set("labels") {
			t.Errorf("%q: %v %+v", text, ms, got)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"unknown", "timeoutms: 1\nprovider: []\n", `f:1:1: timeoutms: unknown field "timeoutms"; known fields are server, providers, labels, limits, expires, policy, extra, loose, auth
f:2:1: provider: unknown field "provider"; did you mean "providers"? Known fields are server, providers, labels, limits, expires, policy, extra, loose, auth`},
		{"unknown deep", "providers:\n  - name: a\n    timeouts:\n      Conect: 1s\n", `f:4:7: providers[0].timeouts.Conect: unknown field "Conect"; did you mean "connect"? Known fields are connect, total`},
		{"whole", "providers: [{weight: eight}, {weight: \"8\"}, {weight: 1.5}, {weight: 010}]\nloose: {max: 128}\nserver: {port: -1}\n", `f:1:22: providers[0].weight: "eight" is not a whole number; write digits, such as 64
f:1:39: providers[1].weight: "8" is in quotes, so it is not a whole number; write 8 without them
f:1:54: providers[2].weight: "1.5" is not a whole number; write digits, such as 64
f:1:69: providers[3].weight: "010" begins with a zero, which some read as octal; write it without
f:2:14: loose.max: 128 is out of range; write a whole number from -128 to 127
f:3:16: server.port: -1 is out of range; write a whole number from 0 to 65535`},
		{"huge", "providers: [{weight: 99999999999999999999}]", `f:1:22: providers[0].weight: 99999999999999999999 is out of range; write a whole number from -9223372036854775808 to 9223372036854775807`},
		{"scalars", "server: {debug: yes, ratio: .inf, grace: 5, max_body: 1MB, wait: -1s}\nexpires: soon\n", `f:1:17: server.debug: "yes" is not true or false; write true or false
f:1:29: server.ratio: ".inf" is not a number; write one such as 0.5
f:1:42: server.grace: "5" is not a duration; write a number with its unit, such as 250ms, 30s or 5m
f:1:55: server.max_body: "1MB" is not a size; write a whole number with its unit, such as 64KiB, 32MiB or 1GiB
f:1:66: server.wait: "-1s" is negative; durations here are zero or more
f:2:10: expires: "soon" is not a date or a time; write one such as 2027-01-31 or 2027-01-31T18:00:00Z`},
		{"kinds", "server: [a]\nproviders: {a: b}\nlabels: x\nlimits: 3\nauth: {}\nexpires: []\n", `f:1:9: server: this is a list, not a mapping; write its fields, as in "listen: …"
f:2:12: providers: this is a mapping, not a list; write [a, b], or one "- item" a line
f:3:9: labels: this is text, not a mapping; write one "name: value" a line
f:4:9: limits: this is a number, not a mapping; write one "name: value" a line
f:5:7: auth: this is a mapping, not one value; write text
f:6:10: expires: this is a list, not one value; write a date such as 2027-01-31`},
		{"missing", "server:\n  grace:\n  port: ~\nproviders:\n  -\n", `f:2:9: server.grace: the value is missing; write a duration such as 30s, or remove the field
f:3:9: server.port: the value is missing; write a whole number such as 64, or remove the field
f:5:5: providers[0]: the item is empty; write its fields, as in "name: …", or remove it`},
		{"duplicate", "auth: a\nlabels: {a: b, a: c}\nauth: d\n", `f:2:16: labels.a: "a" is given twice, first in line 2; keep one of them
f:3:1: auth: "auth" is given twice, first in line 1; keep one of them`},
		{"documents", "auth: a\n---\nauth: b\n---\nauth: c\n", `f:3:1: (document): a second document begins here; a configuration is one document, so remove the "---" and what follows`},
		{"tab", "server:\n\tlisten: a\n", `f:2:1: (document): not valid YAML: found character TAB that cannot start any token; indent with spaces`},
		{"star", "labels: {a: *}\n", `f:1:14: (document): not valid YAML: unexpected scalar value type; put a value that begins with *, &, ! or ? in quotes, as in "*"`},
		{"alias", "auth: *-x\n", `f:1:7: auth: *-x refers to no anchor before it; define it with &-x, or put a value that begins with * in quotes`},
		{"forward", "auth: *x\nlabels: {a: &x b}\n", `f:1:7: auth: *x refers to no anchor before it; define it with &x, or put a value that begins with * in quotes`},
		{"cycle", "extra: &x [*x]\n", `f:1:12: extra[0]: the alias *x stands within what it refers to; write out the value`},
		{"merge cycle", "loose: &x {<<: *x}\n", `f:1:16: loose: the alias *x stands within what it refers to; write out the value`},
		{"merge text", "loose: {<<: 1}\n", `f:1:13: loose: << merges a number; write an alias of a mapping, as in "<<: *common"`},
		{"once", "limits: {a: &x {max: many}, b: *x, c: {<<: *x}}\n", `f:1:22: limits.a.max: "many" is not a whole number; write digits, such as 64`},
		{"anchors", "limits: {a: &x {max: 1}, b: &x {max: 2}}\n", `f:1:29: (document): a second anchor is named &x, first used in line 1; choose another name`},
		{"tag", "auth: !!str 5\n", `f:1:7: auth: YAML tags are not used here; write the value without !!str`},
		{"utf8", "auth: ab\nlabels: \xff\n", `f:2:9: (document): the byte 0xff is not UTF-8; save the file as UTF-8`},
		{"root", "- a\n", `f:1:1: (document): this is a list, not a mapping; write its fields, as in "server: …"`},
		{"setting", "policy: {kind: unfair}\n", `f:1:16: policy.kind: unknown kind "unfair"; known kinds are fair`},
		{"setting field", "policy: {kind: fair, chare: 1}\n", `f:1:22: policy.chare: unknown field "chare"; did you mean "share"? Known fields are kind, share`},
		{"deep", "extra: " + strings.Repeat("[", 5000), `f:1:108: (document): nested more than 100 levels deep; write it flatter`},
		{"entries", "extra:\n  " + strings.Repeat("- ", 5000), `f:2:203: (document): nested more than 100 levels deep; write it flatter`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var into sample
			if _, ms := YAML("f", []byte(test.text), &into); ms.Error() != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", ms, test.want)
			}
		})
	}
}

func TestSecretsAreNotRepeated(t *testing.T) {
	const secret = "sk-proj-abc123"
	for _, text := range []string{
		"providers: [{credentials: [{secret: SECRET}]}]",
		"providers: [{credentials: [SECRET]}]",
		"providers: [{credentials: SECRET}]",
		"providers: [{credentials: [{SECRET}]}]",
		"providers: [{credentials: [{secret: [SECRET]}]}]",
		"providers: [{credentials: [{secret: {SECRET: 1}}]}]",
		"providers: [{credentials: [{secret: !x SECRET}]}]",
		"providers:\n- credentials:\n  - secret:SECRET\n",
		"providers:\n- credentials:\n  - secret: 'SECRET\n",
		"providers:\n- credentials:\n  - secret: a: SECRET\n",
		"providers:\n- credentials:\n  - secret: @SECRET\n",
		"providers:\n- credentials:\n  - secret: env:A\n    secret: SECRET\n",
	} {
		var into sample
		_, ms := YAML("f", []byte(strings.ReplaceAll(text, "SECRET", secret)), &into)
		if len(ms) == 0 || strings.Contains(ms.Error(), secret) {
			t.Errorf("%s:\n%s", text, ms)
		}
	}
}

func TestPlace(t *testing.T) {
	const text = `# first
providers:
  - name: a
    timeouts:
      connect: 2s
`
	p, ms := YAML("f", []byte(text), &sample{})
	if len(ms) > 0 {
		t.Fatal(ms)
	}
	for path, want := range map[string]string{
		"providers[0].name":             "f:3:11: providers[0].name: m",
		"providers[0].base_url":         "f:3:5: providers[0].base_url: m",
		"providers[0].timeouts.connect": "f:5:16: providers[0].timeouts.connect: m",
		"providers[0].timeouts.total":   "f:4:5: providers[0].timeouts.total: m",
		"providers[7]":                  "f:2:1: providers[7]: m",
		"keys":                          "f:1:1: keys: m",
		"":                              "f:1:1: (document): m",
	} {
		var ps setting.Problems
		ps.Add(path, "m")
		if got := p.Place("f", ps).Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if (Mistakes{}).Err() != nil || p.Place("f", nil).Err() != nil {
		t.Error("no mistakes are an error")
	}
}

func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("extra:\n  a0: &a0 [x]\n")
	for i := range 30 {
		prev := fmt.Sprintf("*a%d", i)
		fmt.Fprintf(&b, "  a%d: &a%d [%s%s]\n", i+1, i+1, strings.Repeat(prev+", ", 9), prev)
	}
	begin := time.Now()
	_, ms := YAML("f", []byte(b.String()), &sample{})
	if len(ms) == 0 || !strings.Contains(ms.Error(), "aliases repeat more than") {
		t.Error(ms)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestContract(t *testing.T) {
	data, err := os.ReadFile("testdata/core.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var into any = &struct {
		Server, Providers, Models, Keys any
		S                               any `yaml:"server"`
		P                               any `yaml:"providers"`
		M                               any `yaml:"models"`
		K                               any `yaml:"keys"`
	}{}
	if _, ms := YAML("core.yaml", data, into); len(ms) > 0 {
		t.Error(ms)
	}
}

func TestMisuse(t *testing.T) {
	for _, into := range []any{nil, sample{}, new(int), (*sample)(nil), &struct {
		A chan int `yaml:"a"`
	}{}} {
		if _, ms := YAML("f", []byte("a: 1\n"), into); len(ms) == 0 {
			t.Errorf("%T was accepted", into)
		}
	}
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{
		"server: {listen: a, port: 1}\nproviders:\n- name: x\n  credentials: [{secret: env:A}]\n",
		"a: &x {b: *x}\n<<: *x\n", "policy: {kind: fair, share: 1}", "? a\n: b\n", "extra: [1, [2], {a: !!int b}]",
		"limits: {a: &x {max: 1}, b: {<<: [*x, {max: 2}]}}\n", "a: |\n  x\n", "%TAG ! x\n---\n", "{", "\"", "- - -",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var into sample
		_, ms := YAML("f", []byte(text), &into)
		for _, m := range ms {
			if m.Line < 1 || m.Column < 1 || m.Message == "" || strings.Contains(m.Message, "\n") {
				t.Errorf("%+v", m)
			}
		}
	})
}
