// Package floors is a test of the architecture. The packages stand on floors,
// and imports only go down; tools stay tools. Nothing imports this package.
package floors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/headgate-ai/headgate/"

// nature says what the packages of a floor may do.
type nature uint8

const (
	free nature = iota
	// standard packages import the standard library only, beside other
	// vocabulary.
	standard
	// pure packages have no I/O, goroutine, lock, clock, chance or logger: what
	// they decide follows from their arguments.
	pure
)

// floor is a set of packages that do not import each other.
type floor struct {
	name     string
	nature   nature
	packages string
}

// stairs is the whole house from the ground up. A package may import only what
// stands on a lower floor. A room's own subfolders need no entry: they stand
// just below the rooms, and only their room and the floors above use them. A
// subfolder that is a pure decision, such as a rate-limit algorithm, is listed
// among the tools, so that it stays one.
var stairs = []floor{
	{"ground", standard, "internal/fault internal/fleet internal/llm internal/scope internal/setting internal/socket"},
	{"tools for bytes", pure, "internal/wire/formdata internal/wire/jsonspan internal/wire/sse"},
	{"tools for calls", pure, "internal/wire internal/wire/peek internal/wire/tokens internal/meter internal/quota/adapt internal/quota/bucket internal/quota/fixed internal/quota/gcra internal/quota/window"},
	{"tools above tools", pure, "internal/wire/allowance internal/wire/trim"},
	{"conditions", free, "internal/condition"}, // a tool but for the language's library
	{"dialects", pure, "internal/wire/anthropic internal/wire/openai"},
	{"parts of the lab", free, "lab/cputime lab/procfs lab/race"},
	{"lab", free, "lab/chaos lab/fake"},
	{"parts of the bench", free, "lab/bench/mock"},
	{partsOfRooms, free, ""},
	{rooms, free, "internal/attempt internal/authn internal/edge internal/journal internal/ledger internal/quota internal/route internal/stream internal/upstream"},
	{"parts of stores", free, "internal/store/ledgersql"},
	{"stores", free, "internal/store/postgres internal/store/redis internal/store/sqlite internal/authn/keyfile internal/ledger/ledgertest"},
	{"load", free, "lab/load"}, // through a room's client
	{"bench", free, "lab/bench/compare"},
	{"endurance", free, "lab/soak/trial lab/h2spec/bare"},
	{"hallway and operators", free, "internal/admin internal/gateway"},
	{"experiments", free, "lab/experiment"}, // they measure the rooms
	{"parts of config", free, "internal/config/decode internal/config/source"},
	{"sources of config", free, "internal/config/source/file internal/config/source/static"},
	{"config", free, "internal/config"},
	{"reference of config", free, "internal/config/reference"},
	{"app", free, "internal/app"},
	{"cli", free, "internal/cli"},
	{"cmd", free, "cmd/headgate lab/bench lab/h2spec lab/soak"},
}

const (
	rooms        = "rooms"
	partsOfRooms = "parts of rooms"
)

// guests may be imported by the named packages only, whatever their floor.
// Tests may import them, too.
var guests = map[string]string{
	"lab/chaos":                 "lab/experiment",
	"lab/fake":                  "internal/upstream internal/app internal/cli lab/experiment",
	"lab/load":                  "internal/cli lab/experiment lab/bench/compare lab/soak/trial",
	"lab/bench/mock":            "lab/bench/compare",
	"lab/cputime":               "internal/quota/limittest",
	"lab/race":                  "internal/quota/limittest",
	"lab/procfs":                "lab/bench/compare lab/load lab/soak/trial",
	"lab/bench/compare":         "lab/bench",
	"lab/soak/trial":            "lab/soak",
	"lab/h2spec/bare":           "lab/h2spec",
	"lab/experiment":            "internal/cli",
	"internal/gateway":          "internal/app",
	"internal/admin":            "internal/app internal/config",
	"internal/app":              "internal/cli",
	"internal/cli":              "cmd/headgate",
	"internal/config/reference": "",
	"internal/quota/limittest":  "",
}

// place is where a package stands; ok is false where it has no floor.
func place(pkg string) (level int, ok bool) {
	for i, f := range stairs {
		if slices.Contains(strings.Fields(f.packages), pkg) {
			return i, true
		}
	}
	if roomOf(pkg) == "" {
		return 0, false
	}
	return slices.IndexFunc(stairs, func(f floor) bool { return f.name == partsOfRooms }), true
}

// roomOf is the room that a package is a part of, "" if of none.
func roomOf(pkg string) string {
	for _, f := range stairs {
		if f.name != rooms {
			continue
		}
		for _, room := range strings.Fields(f.packages) {
			if strings.HasPrefix(pkg, room+"/") {
				return room
			}
		}
	}
	return ""
}

// listed is a package as go list sees it.
type listed struct {
	ImportPath, Dir, Name string
	Imports               []string
	GoFiles, TestGoFiles  []string
	XTestGoFiles          []string
}

// name is the path within the module.
func (p *listed) name() string { return strings.TrimPrefix(p.ImportPath, module) }

// own gives the part of an import path behind the module's, if it has that.
func own(path string) (string, bool) { return strings.CutPrefix(path, module) }

var all = sync.OnceValues(func() ([]listed, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Name,Imports,GoFiles,TestGoFiles,XTestGoFiles", module+"...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var pkgs []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		if !strings.Contains(p.ImportPath, "/testdata/") {
			pkgs = append(pkgs, p)
		}
	}
})

// everything lists all packages, those made of tests alone included.
func everything(t *testing.T) []listed {
	t.Helper()
	pkgs, err := all()
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

// product lists the packages that have code beside tests.
func product(t *testing.T) (pkgs []listed) {
	t.Helper()
	for _, p := range everything(t) {
		if len(p.GoFiles) > 0 {
			pkgs = append(pkgs, p)
		}
	}
	return pkgs
}

// files are the paths of a package's Go files, tests left out.
func (p *listed) files() (paths []string) {
	for _, f := range p.GoFiles {
		paths = append(paths, filepath.Join(p.Dir, f))
	}
	return paths
}

func TestEveryPackageHasAFloor(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range product(t) {
		seen[p.name()] = true
		if _, ok := place(p.name()); !ok {
			t.Errorf("%s stands on no floor. Add it to stairs in this file: vocabulary to the ground, a pure decision to the tools, "+
				"a stage of a request to the rooms. If none fits, docs/internals.md explains the floors.", p.name())
		}
	}
	for _, f := range stairs {
		for pkg := range strings.FieldsSeq(f.packages) {
			if !seen[pkg] {
				t.Errorf("stairs lists %s on the floor %q, and there is no such package; take it out", pkg, f.name)
			}
		}
	}
}

func TestImportsGoDown(t *testing.T) {
	for _, p := range product(t) {
		for _, imp := range p.Imports {
			if dep, isOwn := own(imp); isOwn {
				if wrong := objection(p.name(), dep); wrong != "" {
					t.Errorf("%s imports %s: %s", p.name(), dep, wrong)
				}
			}
		}
	}
}

// objection is what is wrong with one import within the module, "" if nothing.
func objection(from, to string) string {
	level, known := place(from)
	at, found := place(to)
	if !known || !found {
		return "" // TestEveryPackageHasAFloor says so
	}
	if hosts, guest := guests[to]; guest && !slices.Contains(strings.Fields(hosts), from) {
		return "only these may: " + orNone(hosts)
	}
	if room := roomOf(to); room != "" && stairs[at].name == partsOfRooms {
		if level <= roomLevel() && !sameRoom(from, to) {
			return "it belongs to the room " + room
		}
		return ""
	}
	if at >= level {
		return fmt.Sprintf("from the floor %q to the floor %q, and imports go down only. Move what both need to the ground, pass it as an argument, "+
			"or let app hand over a function", stairs[level].name, stairs[at].name)
	}
	return ""
}

func roomLevel() int { return slices.IndexFunc(stairs, func(f floor) bool { return f.name == rooms }) }

// The test above is worth as much as what it finds.
func TestObjection(t *testing.T) {
	for _, c := range []struct {
		from, to string
		wrong    bool
	}{
		{"internal/gateway", "internal/edge", false},
		{"internal/edge", "internal/gateway", true},
		{"internal/edge", "internal/authn", true},
		{"internal/edge", "internal/wire/openai", false},
		{"internal/wire", "internal/wire/openai", true},
		{"internal/wire/openai", "internal/wire/anthropic", true},
		{"internal/wire/jsonspan", "internal/llm", false},
		{"internal/llm", "internal/fault", true},
		{"internal/upstream", "lab/fake", false},
		{"internal/edge", "lab/fake", true},
		{"internal/cli", "internal/gateway", true},
		{"internal/app", "internal/gateway", false},
		{"internal/gateway", "internal/admin", true},
		{"internal/upstream", "internal/upstream/conn", false},
		{"internal/upstream/conn", "internal/upstream/conn/frame", false},
		{"internal/upstream/conn", "internal/upstream", true},
		{"internal/edge", "internal/upstream/conn", true},
		{"internal/edge/conn", "internal/upstream/conn", true},
		{"internal/app", "internal/upstream/conn", false},
		{"internal/upstream/conn", "internal/wire", false},
	} {
		if got := objection(c.from, c.to); got != "" != c.wrong {
			t.Errorf("%s imports %s: objection %q", c.from, c.to, got)
		}
	}
}

// sameRoom is whether both are parts of one room, or b is a part of the room
// a. The compiler keeps the parts of a room from importing in a circle.
func sameRoom(a, b string) bool {
	room := roomOf(b)
	return room != "" && (a == room || roomOf(a) == room)
}

func orNone(s string) string {
	if s == "" {
		return "tests"
	}
	return s
}

func TestGroundIsStandardLibraryOnly(t *testing.T) {
	for _, p := range product(t) {
		if level, ok := place(p.name()); !ok || stairs[level].nature != standard {
			continue
		}
		for _, imp := range p.Imports {
			if strings.Contains(strings.Split(imp, "/")[0], ".") {
				t.Errorf("%s is vocabulary and imports %s; the ground has the standard library only", p.name(), imp)
			}
		}
	}
}

// The names that say nothing about what is inside.
var empty = []string{"util", "utils", "common", "helper", "helpers", "types", "shared", "pkg", "misc", "base", "lib"}

func TestNamesSayWhatIsInside(t *testing.T) {
	for _, p := range everything(t) {
		for part := range strings.SplitSeq(p.name(), "/") {
			if slices.Contains(empty, part) {
				t.Errorf("%s: %q says nothing about what is inside; name the thing", p.name(), part)
			}
		}
	}
}

func TestMainIsADoorbell(t *testing.T) {
	const most = 40
	for _, p := range product(t) {
		if p.Name != "main" {
			continue
		}
		if want := path.Join("cmd", path.Base(p.name())); p.name() != want && !strings.HasPrefix(p.name(), "lab/") {
			t.Errorf("%s is a command outside of cmd", p.name())
			continue
		}
		for _, file := range p.files() {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(b), "\n"); n > most {
				t.Errorf("%s has %d lines; a command has at most %d, and the rest lives in internal/cli", file, n, most)
			}
		}
	}
}
