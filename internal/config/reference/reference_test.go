package reference

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/config/reference/testdata/sample"
	"github.com/headgate-ai/headgate/internal/setting"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run the test with -update and look at the difference. Got:\n%s", path, got)
	}
}

func comments(t *testing.T) Comments {
	t.Helper()
	docs, err := ParseComments("testdata/sample")
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func TestMarkdown(t *testing.T) {
	defaults := &sample.Config{Server: sample.Server{
		Listen: "127.0.0.1:8080", MaxBody: 64 << 20, Grace: setting.Duration(time.Hour), Wait: 90 * time.Second, Ports: []uint16{1, 2},
	}}
	golden(t, "sample.md", Markdown(reflect.TypeFor[sample.Config](), comments(t), defaults))
	if got := Markdown(reflect.TypeFor[sample.Config](), nil, nil); !bytes.Contains(got, []byte("| `server.listen` | text |  |  |")) {
		t.Errorf("without comments and defaults:\n%s", got)
	}
}

func TestSchema(t *testing.T) {
	got := Schema(reflect.TypeFor[sample.Config](), comments(t))
	golden(t, "sample.schema.json", got)
	if !json.Valid(got) {
		t.Error("not JSON")
	}
}

func TestParseComments(t *testing.T) {
	docs := comments(t)
	for key, want := range map[string]string{
		"sample.Limit":           "Limit is how much a tenant may use.\n",
		"sample.Limit.Max":       "Max is the number of requests.\n",
		"sample.Server.TLS.Cert": "Cert is the path of the certificate.\n",
		"sample.Server.Grace":    "Grace is how long streams may take to end.\n",
		"sample.Server.Debug":    "",
	} {
		if docs[key] != want {
			t.Errorf("%s: %q", key, docs[key])
		}
	}
	if _, err := ParseComments("testdata/nowhere"); err == nil {
		t.Error("a directory that does not exist was read")
	}
}

func TestWithoutName(t *testing.T) {
	for _, test := range []struct{ text, name, want string }{
		{"Max is the number.", "Max", "The number."},
		{"Max bounds it.", "Max", "Bounds it."},
		{"Models are globs.", "Models", "Globs."},
		{"The most.", "Max", "The most."},
		{"Maximum.", "Max", "Maximum."},
		{"Max é.", "Max", "É."},
		{"Max", "Max", "Max"},
		{"", "Max", ""},
	} {
		if got := withoutName(test.text, test.name); got != test.want {
			t.Errorf("%q: got %q, want %q", test.text, got, test.want)
		}
	}
}

// The schema's patterns are to accept what the types accept.
func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		value any
		texts string
	}{
		{new(setting.Duration), "30s 250ms 1h30m .5s 1.5h 0 +5s 2 x 1d -1s s 1. 5µs 00s"},
		{new(setting.Size), "64KiB 1GiB 0 12 5B 1MB x KiB -1 1.5KiB"},
		{new(setting.Secret), "env:A file:/x literal:y env: x literal env:A:b vault:x"},
	} {
		pattern, _ := scalar(reflect.TypeOf(test.value).Elem())["pattern"].(string)
		re := regexp.MustCompile(pattern)
		u, _ := test.value.(interface{ UnmarshalText([]byte) error })
		for _, text := range strings.Fields(test.texts) {
			if accepts := u.UnmarshalText([]byte(text)) == nil; re.MatchString(text) != accepts {
				t.Errorf("%T: %q is accepted: %v, but not by the schema", test.value, text, accepts)
			}
		}
	}
}
