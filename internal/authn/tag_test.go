package authn

import (
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/headgate-ai/headgate/internal/llm"
)

// Whatever is altered of a token that is known makes it another one, with and
// without GMAC.
func TestAlteredTokensAreOthers(t *testing.T) {
	for name, with := range map[string]*tagger{"GMAC": newTagger(), "SHA-256": {}} {
		for n := range 100 {
			text := strings.Repeat("\x00", n)
			made := with.of(text)
			if with.of(text) != made {
				t.Fatalf("%s: the tag of %d bytes changes", name, n)
			}
			if with.of(text+"\x00") == made {
				t.Errorf("%s: %d bytes and one more have one tag", name, n)
			}
			for i := range 8 * n {
				other := []byte(text)
				other[i/8] ^= 1 << (i % 8)
				if with.of(string(other)) == made {
					t.Errorf("%s: bit %d of %d bytes does not matter", name, i, n)
				}
			}
		}
	}
	p, room := trusting(t), New()
	token := sign(t, jwt.SigningMethodEdDSA, "d", edKey, claimsWith(nil))
	if _, err := room.Identify(p, token, false, llm.Chat, now); err != nil {
		t.Fatal(err)
	}
	for i := range token {
		other := token[:i] + string(token[i]^1) + token[i+1:]
		if _, err := room.Identify(p, other, false, llm.Chat, now); err == nil {
			t.Errorf("the token is accepted with another byte at %d", i)
		}
	}
}

// Each process has keys of its own, and a tag is the same on every goroutine.
func TestTags(t *testing.T) {
	if tags.of("a.b.c") == newTagger().of("a.b.c") {
		t.Error("two taggers make the same tags")
	}
	texts := []string{"", "a", strings.Repeat("b", 300), strings.Repeat("c", maxToken)}
	want := make([]tag, len(texts))
	for i, text := range texts {
		want[i] = tags.of(text)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				if k := i % len(texts); tags.of(texts[k]) != want[k] {
					t.Errorf("the tag of %d bytes changes", len(texts[k]))
				}
			}
		})
	}
	wg.Wait()
}

// Nothing of a token stays where its tag was made.
func TestTokenIsNotKept(t *testing.T) {
	made := newTagger()
	kept := new(desk)
	made.desks.Put(kept)
	made.of(strings.Repeat("secret", 20))
	if text := string(kept.token[:cap(kept.token)]); strings.Trim(text, "\x00") != "" {
		t.Errorf("%q", text)
	}
}
