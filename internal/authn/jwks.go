package authn

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

// publicKeys is a JWK set as it was read at one time. It never changes; that a
// set is another one is seen by its address.
type publicKeys struct {
	keys []publicKey
	sum  [sha256.Size]byte // of the document
}

type publicKey struct {
	kid string
	alg string // the only algorithm that the key is for, or ""
	key crypto.PublicKey
}

const (
	maxKeySet = 1 << 20 // bytes
	maxKeys   = 256
	minRSA    = 2048 // bits
)

// parseKeys reads a JWK set (RFC 7517). Keys that are not for checking
// signatures, or of a kind that is not known here, are left out, as section 5
// asks; a set without any other is an error. Secrets in a set are left out,
// too: what is published is not secret.
func parseKeys(data []byte) (*publicKeys, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, errors.New("it is not JSON; a JWK set is written as {\"keys\": […]}")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys; at most %d are read", len(set.Keys), maxKeys)
	}
	out := &publicKeys{sum: sha256.Sum256(data)}
	var why error
	for i, raw := range set.Keys {
		k, err := parseKey(raw)
		if err != nil {
			why = fmt.Errorf("keys[%d]: %w", i, err)
			continue
		}
		out.keys = append(out.keys, k)
	}
	if len(out.keys) == 0 {
		if why == nil {
			why = errors.New("\"keys\" is empty or missing")
		}
		return nil, fmt.Errorf("it has no key that could check a signature: %w", why)
	}
	return out, nil
}

func parseKey(raw json.RawMessage) (publicKey, error) {
	var m jwkset.JWKMarshal
	if err := json.Unmarshal(raw, &m); err != nil {
		return publicKey{}, errors.New("it is not a JWK")
	}
	if m.USE != "" && m.USE != jwkset.UseSig {
		return publicKey{}, fmt.Errorf("its use is %.20q and not sig", m.USE)
	}
	// Only the key itself is read; a certificate beside it would have to be
	// checked, and one at an address fetched.
	plain := jwkset.JWKMarshal{KTY: m.KTY, CRV: m.CRV, X: m.X, Y: m.Y, N: m.N, E: m.E}
	jwk, err := jwkset.NewJWKFromMarshal(plain, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return publicKey{}, fmt.Errorf("it is not a public key of type RSA, EC or OKP that can be read (kty %.20q)", m.KTY)
	}
	k := publicKey{kid: m.KID, alg: m.ALG.String(), key: jwk.Key()}
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSA {
			return publicKey{}, fmt.Errorf("an RSA key of %d bits; at least %d are needed", key.N.BitLen(), minRSA)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return publicKey{}, fmt.Errorf("a key of type %.20q does not check signatures", m.KTY)
	}
	return k, nil
}

// find lists the keys that a token may be signed with: the one that it names,
// or all that do for its algorithm.
func (ks *publicKeys) find(kid, alg string) (found []jwt.VerificationKey) {
	if ks == nil {
		return nil
	}
	for i := range ks.keys {
		k := &ks.keys[i]
		if (kid == "" || k.kid == kid) && (k.alg == "" || k.alg == alg) && fits(k.key, alg) {
			found = append(found, k.key)
		}
	}
	return found
}

func (ks *publicKeys) has(kid string) bool {
	for i := range ks.keys {
		if kid == "" || ks.keys[i].kid == kid {
			return true
		}
	}
	return false
}

// fits is whether an algorithm is one for a kind of key.
func fits(key crypto.PublicKey, alg string) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return alg == map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[key.Curve.Params().BitSize]
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}
