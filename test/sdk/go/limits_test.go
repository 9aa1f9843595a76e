package sdk

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const (
	limitedKey = "sk-headgate-limited"
	poorKey    = "sk-headgate-poor"
)

// tries counts what an SDK sends.
type tries int

func (n *tries) middleware(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	*n++
	return next(r)
}

// sdkCall makes one call with a key under a new request id, with two retries
// at most.
type sdkCall func(t *testing.T, key string, n *tries) (id string, err error)

func byOpenAI(t *testing.T, key string, n *tries) (string, error) {
	id, withID := named()
	_, err := openAI(option.WithAPIKey(key), option.WithMaxRetries(2)).Chat.Completions.New(t.Context(), chat("gpt-4o-mini"), withID, option.WithMiddleware(n.middleware))
	return id, err
}

func byAnthropic(t *testing.T, key string, n *tries) (string, error) {
	id, withID := claudeNamed()
	_, err := claude(anthropicoption.WithAPIKey(key), anthropicoption.WithMaxRetries(2)).Messages.New(t.Context(), message("claude-sonnet-5", question), withID, anthropicoption.WithMiddleware(n.middleware))
	return id, err
}

// The gateway's own limit: the SDKs wait as long as they are told, then get in,
// and the provider never hears of the refused try.
func TestSDKsWaitForALimit(t *testing.T) {
	for name, call := range map[string]sdkCall{"OpenAI": byOpenAI, "Anthropic": byAnthropic} {
		var n tries
		if _, err := call(t, limitedKey, &n); err != nil || n != 1 {
			t.Fatalf("%s: the first call took %d tries: %v", name, n, err)
		}
		n = 0
		began := time.Now()
		id, err := call(t, limitedKey, &n)
		if took := time.Since(began); err != nil || n != 2 || took < time.Second || took > 5*time.Second {
			t.Errorf("%s: %d tries in %v: %v", name, n, took, err)
		}
		if got := seen(t, id); len(got) != 1 || got[0].Status != 200 {
			t.Errorf("%s: the provider saw %d calls, want the one that was let in", name, len(got))
		}
	}
}

// A budget that is used up: no SDK tries again, and its error says why.
func TestSDKsDoNotRetryABudget(t *testing.T) {
	var n tries
	id, err := byOpenAI(t, poorKey, &n)
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || n != 1 || e.StatusCode != 429 || e.Code != "insufficient_quota" || e.Type != "insufficient_quota" || len(seen(t, id)) != 0 {
		t.Errorf("OpenAI: %d tries, %v, %d calls upstream", n, err, len(seen(t, id)))
	}
	n = 0
	id, err = byAnthropic(t, poorKey, &n)
	a, ok := errors.AsType[*anthropic.Error](err)
	if !ok || n != 1 || a.StatusCode != 429 || a.Type() != anthropic.ErrorTypeRateLimitError || a.RequestID != id || len(seen(t, id)) != 0 {
		t.Errorf("Anthropic: %d tries, %v, %d calls upstream", n, err, len(seen(t, id)))
	}
}

// Without retries, the limit is an error that says how long to wait.
func TestSDKsShowALimit(t *testing.T) {
	var e *openai.Error
	for range 2 { // whatever the other tests have left of it
		_, err := openAI(option.WithAPIKey(limitedKey)).Chat.Completions.New(t.Context(), chat("gpt-4o"))
		e, _ = errors.AsType[*openai.Error](err)
	}
	if e == nil || e.StatusCode != 429 || e.Code != "rate_limit_exceeded" || e.Type != "rate_limit_error" {
		t.Fatalf("%v", e)
	}
	if h := e.Response.Header; h.Get("Retry-After") != "2" || h.Get("X-Ratelimit-Remaining-Requests") != "0" || h.Get("X-Should-Retry") != "" {
		t.Errorf("%v", h)
	}
}
