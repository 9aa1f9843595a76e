package docs

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/source"
)

const exampleFile = "docs/headgate.example.yaml"

// The example is one that headgate check accepts.
func TestExampleLoads(t *testing.T) {
	_, mistakes := config.Load(source.NewDocument(exampleFile, read(t, exampleFile)))
	for _, m := range mistakes {
		t.Error(m)
	}
}

// The example shows every field, as a setting or, where that would need a file
// of the reader's, as a comment.
func TestExampleIsComplete(t *testing.T) {
	text := string(read(t, exampleFile))
	for _, path := range leaves(reflect.TypeFor[config.File](), "") {
		name := path[strings.LastIndexByte(path, '.')+1:]
		if !regexp.MustCompile(`(?m)(^|[\s{#-])` + regexp.QuoteMeta(name) + `:`).MatchString(text) {
			t.Errorf("%s does not show %s", exampleFile, path)
		}
	}
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// So are the whole configurations within the pages.
func TestConfigurationsInPagesLoad(t *testing.T) {
	found := 0
	for _, page := range pages(t) {
		for _, m := range yamlBlock.FindAllSubmatch(read(t, page), -1) {
			if !bytes.HasPrefix(m[1], []byte("providers:")) || !bytes.Contains(m[1], []byte("\nkeys:")) {
				continue // a part of one
			}
			found++
			_, mistakes := config.Load(source.NewDocument(page, m[1]))
			for _, m := range mistakes {
				t.Error(m)
			}
		}
	}
	if found < 2 {
		t.Errorf("%d configurations found", found)
	}
}

// leaves are the paths of all fields of a configuration.
func leaves(t reflect.Type, path string) (paths []string) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var fields int
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name == "" || name == "-" {
				continue
			}
			fields++
			paths = append(paths, leaves(f.Type, strings.TrimPrefix(path+"."+name, "."))...)
		}
	}
	if fields == 0 {
		return []string{path}
	}
	return paths
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(root + path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
