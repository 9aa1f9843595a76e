package upstream

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate-ai/headgate/internal/upstream/h1"
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
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			var r Reply
			resp, err := c.carry(req, &r)
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
