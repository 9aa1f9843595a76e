package upstream

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/openai"
)

// Once a provider that has read a request begins its answer, the request's bytes
// are free, whatever client sent them; and they are not while it has not read them.
func TestRecycleWithTheHead(t *testing.T) {
	for _, kind := range []string{transportH1, transportStd, "HTTP/2"} {
		for _, size := range []int{1 << 10, 300 << 10} {
			for _, reads := range []bool{true, false} {
				if !reads && size < 100<<10 {
					continue // what is small has been sent, read or not
				}
				recycle(t, kind, bytes.Repeat([]byte("x"), size), reads)
			}
		}
	}
}

func recycle(t *testing.T, kind string, raw []byte, reads bool) {
	t.Helper()
	var got []byte
	end := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reads {
			got, _ = io.ReadAll(r.Body)
		}
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-end
	}))
	defer s.Close()
	defer close(end)
	if !reads {
		raw = bytes.Repeat(raw, 100) // more than lies on the way
	}
	q := &Request{Call: &llm.Call{Method: http.MethodPost, Path: "/x", Raw: raw}, Out: openai.Dialect{}}
	reply := Reply{}
	defer reply.Close()
	if kind == "HTTP/2" {
		s.EnableHTTP2 = true
		s.StartTLS()
		reply.Provider = compile(t, provider("p", llm.OpenAI, s.URL)).Provider("p")
		q.provider = reply.Provider
		reply.life.Begin(t.Context())
		reply.body.begin(q)
		resp, err := agreedWith(t, s).carry(&reply, q)
		if err != nil {
			t.Fatal(err)
		}
		reply.Response = resp
		check(t, &reply, kind, raw, got, reads)
		return
	}
	s.Start()
	pc := provider("p", llm.OpenAI, s.URL)
	pc.Transport = kind
	sent, err := compile(t, pc).Provider("p").Send(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	defer sent.Close()
	check(t, sent, kind, raw, got, reads)
}

func check(t *testing.T, r *Reply, kind string, raw, got []byte, reads bool) {
	t.Helper()
	if reads && !bytes.Equal(got, raw) {
		t.Errorf("%s: %d bytes of %d arrived", kind, len(got), len(raw))
	}
	free := r.Recycle()
	for i := 0; reads && !free && i < 100; i++ { // who sends it may not have looked up yet
		time.Sleep(time.Millisecond)
		free = r.Recycle()
	}
	if free != reads {
		t.Errorf("%s, %d bytes, which were read: %t; free: %t", kind, len(raw), reads, free)
	}
}
