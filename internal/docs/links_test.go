package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)|<img [^>]*src="([^"]+)"`)

// Every link to a file of the repository leads somewhere, and every heading
// that is linked to exists.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(string(read(t, page)), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(root + to); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, target)
			} else if anchor != "" && !strings.Contains(headings(string(read(t, to))), "\n"+anchor+"\n") {
				t.Errorf("%s: %s has no heading for the link %s", page, to, target)
			}
		}
	}
}

func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, start := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs"} {
		err := filepath.WalkDir(root+start, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
				all = append(all, strings.TrimPrefix(path, root))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// headings are the anchors of a page, one a line.
func headings(page string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			anchor := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			b.WriteString(strings.ReplaceAll(anchor, " ", "-") + "\n")
		}
	}
	return b.String()
}
