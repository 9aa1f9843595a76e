package upstream

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/upstream/h1"
	"github.com/headgate-ai/headgate/internal/wire/openai"
)

// agreedWith is the carrier of a TLS provider, with trust in a test server.
func agreedWith(t *testing.T, s *httptest.Server) *agreed {
	t.Helper()
	standard := s.Client().Transport.(*http.Transport)
	c := &agreed{
		standardCarrier: standardCarrier{standard},
		own:             ownCarrier{h1.New(h1.Config{Dial: (&net.Dialer{}).DialContext, TLS: standard.TLSClientConfig.Clone()})},
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func TestTLSProviderOfHTTP1MovesToOurClient(t *testing.T) {
	for _, speaksH2 := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
		s.EnableHTTP2 = speaksH2
		s.StartTLS()
		defer s.Close()
		c := agreedWith(t, s)
		want := "HTTP/1.1"
		if speaksH2 {
			want = "HTTP/2.0"
		}
		for i := range 4 {
			p := compile(t, provider("p", llm.OpenAI, s.URL)).Provider("p")
			r := Reply{Provider: p}
			r.life.Begin(t.Context())
			q := &Request{Call: &llm.Call{Method: http.MethodGet, Path: "/"}, provider: p}
			resp, err := c.carry(&r, q)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || string(body) != want {
				t.Fatalf("request %d: %q, %v; want %s", i, body, err, want)
			}
			if got := c.plain.Load(); got == speaksH2 {
				t.Errorf("request %d: moved to our client: %v", i, got)
			}
			// The second one is the first of our own client, and so dials.
			if wantReused := i > 1 || i == 1 && speaksH2; r.Reused != wantReused || r.Connect.IsZero() {
				t.Errorf("request %d: reused %v, want %v; connected %v", i, r.Reused, wantReused, r.Connect)
			}
		}
	}
}

// A provider sees the same of a call whichever client sends it.
func TestHeader(t *testing.T) {
	var seen http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header }))
	defer s.Close()
	client := http.Header{
		"Authorization": {"Bearer sk-client"}, "X-Api-Key": {"sk-client"}, "Cookie": {"a=b"}, "Connection": {"x-hop"}, "X-Hop": {"1"},
		"X-Forwarded-For": {"192.0.2.1"}, "X-Headgate-Region": {"eu"}, "Accept": {"application/json"}, "Accept-Encoding": {"br"},
		"User-Agent": {"sdk/1"}, "X-Stainless-Lang": {"go"}, "X-Two": {"1", "2"}, "Openai-Beta": {"theirs"}, "Content-Type": {"application/json"},
	}
	for _, c := range []struct {
		name    string
		dialect llm.Dialect
		stream  bool
		set     map[string]string
		want    http.Header
	}{
		{"openai", llm.OpenAI, false, map[string]string{"openai-beta": "ours"}, http.Header{
			"Authorization": {"Bearer sk-own"}, "Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "Openai-Beta": {"ours"}}},
		{"a stream", llm.OpenAI, true, nil, http.Header{
			"Authorization": {"Bearer sk-own"}, "Accept": {"text/event-stream"}, "Accept-Encoding": {"identity"}, "Openai-Beta": {"theirs"}}},
		{"anthropic", llm.Anthropic, false, map[string]string{"authorization": "Basic x", "anthropic-version": "2024-01-01"}, http.Header{
			"X-Api-Key": {"sk-own"}, "Authorization": {"Basic x"}, "Anthropic-Version": {"2024-01-01"}, "Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "Openai-Beta": {"theirs"}}},
		{"our own key wins", llm.OpenAI, false, map[string]string{"Authorization": "Basic x", "Accept-Encoding": "zstd"}, http.Header{
			"Authorization": {"Bearer sk-own"}, "Accept": {"application/json"}, "Accept-Encoding": {"zstd"}, "Openai-Beta": {"theirs"}}},
	} {
		c.want["User-Agent"], c.want["X-Stainless-Lang"], c.want["X-Two"] = client["User-Agent"], client["X-Stainless-Lang"], client["X-Two"]
		c.want["X-Request-Id"], c.want["Traceparent"], c.want["Content-Type"] = []string{"req_1"}, []string{"00-1"}, client["Content-Type"]
		for _, transport := range []string{transportStd, transportH1} {
			pc := provider("p", c.dialect, s.URL+"/base", "sk-own")
			pc.Headers, pc.Transport = c.set, transport
			call := &llm.Call{ID: "req_1", Dialect: c.dialect, Method: http.MethodPost, Path: "/x", Header: client, Raw: []byte("{}"), WantsStream: c.stream}
			reply, err := compile(t, pc).Provider("p").Send(t.Context(), &Request{Call: call, Out: openai.Dialect{}, Traceparent: "00-1", ClientTakesGzip: true})
			if err != nil {
				t.Fatal(err)
			}
			reply.Close()
			delete(seen, "Content-Length")
			if !maps.EqualFunc(seen, c.want, slices.Equal) {
				t.Errorf("%s, %s: the provider saw\n%v, want\n%v", c.name, transport, seen, c.want)
			}
		}
	}
}
