package floors

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// who is how a package doc says who uses the package, or for whom it is there.
var who = regexp.MustCompile(`(?i)\b(imports?|imported|uses?|used|builds|reads|declare|example of|owns)\b`)

// Every package says in one place what it is for and who uses it.
func TestPackageDocs(t *testing.T) {
	for _, p := range everything(t) {
		files := slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles)
		if len(p.GoFiles) > 0 {
			files = p.GoFiles // a package's doc does not belong into its tests
		}
		var docs, places []string
		for _, name := range files {
			f := parse(t, filepath.Join(p.Dir, name))
			if f.file.Doc != nil {
				docs, places = append(docs, f.file.Doc.Text()), append(places, name)
			}
		}
		switch {
		case len(docs) == 0:
			t.Errorf("%s has no package doc; write \"// Package %s …\" above one package clause: what it is, and who should import it", p.name(), p.Name)
			continue
		case len(docs) > 1:
			t.Errorf("%s has package docs in %s; one place is enough", p.name(), strings.Join(places, ", "))
		}
		checkDoc(t, &p, docs[0])
	}
}

func checkDoc(t *testing.T, p *listed, doc string) {
	t.Helper()
	start := "Package " + strings.TrimSuffix(p.Name, "_test") + " "
	if p.Name == "main" {
		start = "Command " + filepath.Base(p.Dir) + " "
	}
	if !strings.HasPrefix(doc, start) {
		t.Errorf("%s: the package doc begins with %q; begin with %q", p.name(), strings.SplitN(doc, "\n", 2)[0], start)
	}
	if p.Name == "main" || len(p.GoFiles) == 0 || roomOf(p.name()) != "" {
		return // only its room uses a part of one; TestImportsGoDown sees to that
	}
	if !who.MatchString(doc) {
		t.Errorf("%s: the package doc does not say who should import the package", p.name())
	}
}
