package journal

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/authn"
)

// The keys that the gateway mints are known by their looks.
func TestRedactMinted(t *testing.T) {
	for range 100 {
		key, record := authn.Mint(authn.KeyHolder{Name: "x"}, time.Now())
		for _, text := range []string{key, "a key " + key + ", revoked", `{"reason":"` + key + `"}`, "GET /?k=" + key} {
			got := (*Redactor)(nil).Redact(text)
			if secret := key[len("gk_")+len(record.ID)+1:]; strings.Contains(got, secret) || !strings.Contains(got, redacted) {
				t.Fatalf("%q became %q", text, got)
			}
		}
	}
	if s := (*Redactor)(nil).Redact("gk_short and work_item"); s != "gk_short and work_item" {
		t.Error(s)
	}
}
