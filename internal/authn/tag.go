package authn

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"sync"
)

// tag stands for a token among those that have been verified.
type tag [aes.BlockSize]byte

// tagger makes tags. It is asked for each call with a token, and a token is long:
// SHA-256 took most of the time that it takes to know one again.
//
// A tag is the token's GMAC (NIST SP 800-38D), encrypted once more, under two keys
// that this process draws by lot and that nothing leaves, no tag either. Who does
// not know them finds a second token of the same tag by chance only: a token of
// 16 KiB is a polynomial of degree 1025 over a field of 2^128, so that a guess hits
// one of 10,240 tags once in 2^104 tries. That the nonce is always the same would
// give the key away to those who see GMACs, of whom there are none; they are
// encrypted so that the time of a look into the cache tells nothing of them
// either. To keep the tokens and compare them would cost less, and would give them
// to whoever reads the memory.
type tagger struct {
	mac   cipher.AEAD // nil where FIPS 140 alone is allowed, which has nonces by chance only
	after cipher.Block
	desks sync.Pool // of *desk
}

// desk is where a tag is made. What the ciphers are given through interfaces has to
// lie in memory that is shared.
type desk struct {
	token []byte
	nonce [12]byte
	tag   tag
}

var tags = newTagger()

func newTagger() *tagger {
	var keys [2 * aes.BlockSize]byte
	_, _ = rand.Read(keys[:]) // never fails: crypto/rand aborts the process instead
	t := &tagger{desks: sync.Pool{New: func() any { return new(desk) }}}
	block, err := aes.NewCipher(keys[:aes.BlockSize])
	if err == nil {
		t.after, err = aes.NewCipher(keys[aes.BlockSize:])
	}
	if err == nil {
		t.mac, _ = cipher.NewGCM(block)
	}
	return t
}

// of is the tag of a token.
func (t *tagger) of(token string) (made tag) {
	if t.mac == nil {
		d := hash(token)
		return tag(d[:])
	}
	d := t.desks.Get().(*desk)
	d.token = append(d.token[:0], token...)
	t.mac.Seal(d.tag[:0], d.nonce[:], nil, d.token)
	t.after.Encrypt(d.tag[:], d.tag[:])
	made = d.tag
	clear(d.token) // it is a secret
	t.desks.Put(d)
	return made
}
