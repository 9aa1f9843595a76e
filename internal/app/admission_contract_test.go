package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/source"
)

// issuerKey is a new key of an issuer, and the file with its public half.
func issuerKey(t *testing.T) (key *ecdsa.PrivateKey, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	enc := base64.RawURLEncoding
	set, err := json.Marshal(map[string]any{"keys": []map[string]string{{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "1", "x": enc.EncodeToString(point[1:33]), "y": enc.EncodeToString(point[33:]),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, set, 0o600); err != nil {
		t.Fatal(err)
	}
	return key, path
}

// The configuration of admission loads as it stands, and does what it says.
func TestAdmissionConfiguration(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	key, jwks := issuerKey(t)
	_, ledger := ledgerAt(t)
	place := strings.NewReplacer("file:jwks.json", "file:"+jwks, "path: headgate.db", "path: "+ledger)
	if _, mistakes := config.Load(source.NewDocument("admission.yaml", []byte(place.Replace(string(text))))); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	// It runs, on other ports and with another provider.
	run := strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:0", "127.0.0.1:8081", "127.0.0.1:0", "http://127.0.0.1:9100", "%s")
	g := start(t, setup{YAML: run.Replace(place.Replace(string(text)))})
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": "https://issuer.test", "aud": "headgate", "sub": "ann", "tenant": "acme", "tier": "gold", "roles": []string{"user"}, "exp": time.Now().Add(time.Hour).Unix(),
	})
	token.Header["kid"] = "1"
	ann, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, model string
		status     int
	}{
		{"sk-web", "gpt-4", 200}, {"sk-batch", "gpt-4", 403}, {"sk-other", "gpt-3.5-turbo", 200}, {"sk-nobody", "gpt-4", 401}, {ann, "gpt-4", 200},
	} {
		g.Key = c.key
		if a := g.post(chatPath, chatOf(c.model, `,"max_tokens":9`)); a.StatusCode != c.status {
			t.Errorf("%s, %s: %d %s", c.key, c.model, a.StatusCode, a.Bytes)
		}
	}
	g.Key = "sk-web"
	all := g.stands("gpt-4")
	for limit, want := range map[string]float64{"gpt-4-tokens/tokens": 2000, "key-requests/requests": 600, "key-concurrency/concurrent": 64, "acme-month/money": 500} {
		if all[limit].Limit != want {
			t.Errorf("%s: %+v, want %v", limit, all[limit], want)
		}
	}
	if _, shown := all["trial/requests"]; shown {
		t.Error("a shadow rule is shown to clients")
	}
}
