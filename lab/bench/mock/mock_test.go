package mock

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/load"
)

// listen serves the mock until the test ends.
func listen(t *testing.T, c Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { _ = New(c).Serve(l) }()
	return "http://" + l.Addr().String()
}

func TestWhole(t *testing.T) {
	c := Config{Tokens: 100, TokenBytes: 5}
	url := listen(t, c)
	for _, body := range []io.Reader{
		strings.NewReader(`{"model":"x"}`),
		io.MultiReader(strings.NewReader(strings.Repeat("x", 70_000))), // of unknown length: chunked
		strings.NewReader(""),
	} {
		resp, err := http.Post(url+"/v1/chat/completions", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(b), `"content":"`+c.Text()+`"`) {
			t.Fatalf("%d %s %v", resp.StatusCode, b, err)
		}
	}
	resp, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 404 {
		t.Errorf("another path has the status %d", resp.StatusCode)
	}
}

// lab/load finds every token, once and in order, and the end mark; the stamps
// give the delay.
func TestStream(t *testing.T) {
	l := load.Default()
	l.URL, l.Stream, l.Connections, l.Requests = listen(t, Config{Stream: true, Tokens: 50, TokenBytes: 40, Gap: 2 * time.Millisecond}), true, 10, 40
	rep, err := load.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if rep.OK != 40 || rep.Failed != 0 || rep.Tokens.Received != 40*50 || rep.Added == nil {
		t.Fatalf("%+v", rep)
	}
	if gap := rep.Gap.Mean; gap < 1.5 || gap > 4 {
		t.Errorf("tokens come every %v ms, not every 2", gap)
	}
}
