package compare

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// What the target admission has on beside what every gateway of the bench has.
// No limit is ever reached, so that every call is reserved, settled and entered
// in the ledger, and a refusal is an error. The model that the rules are for has
// no public vocabulary: its prompts are estimated, not encoded.
const admissionYAML = `jwt:
  - {name: bench, issuer: %q, audience: headgate, secret: "literal:%s"}
prices:
  - {model: "*", input: 2.5, output: 10}
ledger: {kind: sqlite, path: %q}
quota:
  rules:
    - {name: key-requests, per: [key], requests: {rate: 1000000/s, algorithm: gcra}}
    - {name: tenant-tokens, per: [tenant], tokens: {rate: 1000000000/s, algorithm: bucket}}
    - {name: key-window, per: [key], requests: {rate: 1000000000/min, burst: 1000000000, algorithm: window}}
    - {name: key-concurrency, per: [key], concurrent: 100000}
    - {name: model-requests, when: 'request.model == "%s"', per: [tenant, model], requests: {rate: 1000000/s}}
  budgets:
    - {name: tenant-month, per: [tenant], limit: {usd: 1000000000}, period: month}
`

const (
	jwtIssuer = "https://issuer.example"
	jwtSecret = "the bench's secret of more than 32 bytes"
	// jwtLife is how long a token is good for: longer than any run.
	jwtLife = time.Hour
)

// admissionPart is the part of a configuration that switches admission on, with the
// ledger in dir.
func admissionPart(dir string) string {
	return fmt.Sprintf(admissionYAML, jwtIssuer, jwtSecret, filepath.Join(dir, "ledger.db"), clientModel)
}

// credential is what the load comes with: a key, or where there is admission a
// token, which the gateway verifies once and then remembers.
func (t target) credential(now time.Time) (string, error) {
	if !t.admission {
		return keySecret(usedKey), nil
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": jwtIssuer, "aud": "headgate", "sub": "bench", "tenant": "tenant-00", "exp": now.Add(jwtLife).Unix(),
	}).SignedString([]byte(jwtSecret))
}
