package h1

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s %v %d", r.Method, r.URL, r.Host, r.TransferEncoding, r.ContentLength))
	_, _ = w.Write(b)
}

// TestBasic goes once through every way of sending and both of TLS.
func TestBasic(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(echo))
		cfg := Config{}
		if s.Start(); secure {
			s.Close()
			s = httptest.NewTLSServer(http.HandlerFunc(echo))
			cfg.TLS = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
		}
		tr := newTransport(t, cfg)
		for i, size := range []int{0, 1, 100, 5000, 20 << 10, 100 << 10, 1 << 20} {
			for _, way := range []string{"memory", "counted", "chunked"} {
				t.Run(fmt.Sprint(secure, size, way), func(t *testing.T) {
					body := strings.Repeat("x", size)
					req := newRequest(t, "POST", s.URL+"/a?b=c", body)
					if way != "memory" {
						req.Body = io.NopCloser(strings.NewReader(body))
					}
					if way == "chunked" {
						req.ContentLength = -1
					}
					resp, got, info := must(t, tr, req)
					if got != body || resp.StatusCode != 200 {
						t.Fatalf("%d, %d bytes", resp.StatusCode, len(got))
					}
					if info.Reused != (i > 0 || way != "memory") || !info.Wrote || info.Connected.IsZero() {
						t.Errorf("%+v", info)
					}
					if (resp.TLS != nil) != secure {
						t.Error("TLS state")
					}
				})
			}
		}
		tr.CloseIdleConnections()
		if st := tr.Stats(); st.Dialled != 1 || st.Open != 0 {
			t.Errorf("%+v", st)
		}
		s.Close()
	}
}
