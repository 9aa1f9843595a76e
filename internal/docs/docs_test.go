// Package docs is a test of the documents that are made from the code. Run its
// tests with -update (make generate) to write them anew. Nothing imports this
// package.
package docs

import (
	"bytes"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/internal/cli"
	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/reference"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/lab/fake"
)

var update = flag.Bool("update", false, "write the documents anew")

const root = "../../"

// golden holds a file of the repository equal to what the code makes of it.
func golden(t *testing.T, path string, want []byte) {
	t.Helper()
	have, err := os.ReadFile(root + path)
	if err == nil && bytes.Equal(have, want) {
		return
	}
	if !*update {
		t.Errorf("%s is not what the code says; run make generate and look at the difference", path)
		return
	}
	if err := os.MkdirAll(filepath.Dir(root+path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+path, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

// generated holds one part of a page equal to what the code makes of it. The
// part lies between two marks; the rest of the page is written by hand.
func generated(t *testing.T, path, part string, want []byte) {
	t.Helper()
	page, err := os.ReadFile(root + path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := fmt.Sprintf("<!-- generated: %s -->\n", part), "<!-- end of generated -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no part between %q and %q", path, begin, end)
	}
	golden(t, path, []byte(before+begin+"\n"+strings.Trim(string(want), "\n")+"\n\n"+end+after))
}

// sections are the folders whose types make up the configuration.
var sections = []string{
	"internal/config", "internal/edge", "internal/admin", "internal/upstream", "internal/route", "internal/authn",
	"internal/stream", "internal/journal", "internal/quota", "internal/meter", "internal/ledger", "lab/fake",
}

func comments(t *testing.T) reference.Comments {
	t.Helper()
	dirs := make([]string, len(sections))
	for i, s := range sections {
		dirs[i] = root + s
	}
	c, err := reference.ParseComments(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfiguration(t *testing.T) {
	example, err := os.ReadFile(root + exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	generated(t, "docs/configuration.md", "example", fmt.Appendf(nil, "```yaml\n%s```", example))
	generated(t, "docs/configuration.md", "fields", reference.Markdown(reflect.TypeFor[config.File](), comments(t), config.Default()))
}

func TestConfigurationSchema(t *testing.T) {
	golden(t, "api/config.schema.json", reference.Schema(reflect.TypeFor[config.File](), comments(t)))
}

func TestMetrics(t *testing.T) { golden(t, "docs/metrics.md", journal.MetricsMarkdown(app.Metrics...)) }

func TestErrors(t *testing.T) {
	var b strings.Builder
	b.WriteString("| kind | status | gRPC | OpenAI `type` | OpenAI `code` | Anthropic `type` | blame | retry | sentence |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, k := range fault.Kinds() {
		fmt.Fprintf(&b, "| `%s` | %d | %d | `%s` | `%s` | `%s` | %s | %s | %s |\n",
			k, k.Status(), k.GRPC(), k.OpenAIType(), k.Code(), k.AnthropicType(), k.Blame(), yesNo(k.Retryable()), k.Public())
	}
	generated(t, "docs/errors.md", "kinds", []byte(b.String()))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func TestSimulator(t *testing.T) {
	var b strings.Builder
	b.WriteString("| name | meaning |\n|---|---|\n")
	for _, o := range fake.Overrides {
		fmt.Fprintf(&b, "| `%s` | %s |\n", o.Name, o.Doc)
	}
	generated(t, "docs/simulator.md", "overrides", []byte(b.String()))
	b.Reset()
	b.WriteString("| name | streams only | what happens |\n|---|---|---|\n")
	for _, f := range fake.Faults {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, yesNo(f.Streams), f.Doc)
	}
	generated(t, "docs/simulator.md", "faults", []byte(b.String()))
}

// The description is that of a build without a version, which is what make
// builds outside of a release.
func TestOpenAPI(t *testing.T) {
	w := httptest.NewRecorder()
	edge.OpenAPI(cli.Version).ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", nil))
	if w.Code != 200 {
		t.Fatal(w.Code)
	}
	golden(t, "api/openapi.json", w.Body.Bytes())
}
