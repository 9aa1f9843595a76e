package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// An export that fails before it begins says why; one that fails later is broken
// off, so that nobody takes it for whole.
func TestEntriesBreakOff(t *testing.T) {
	for n, want := range map[int]int{0: http.StatusServiceUnavailable, 5000: http.StatusOK} {
		g := &server{Gateway: Gateway{Entries: func(_ context.Context, _ ledger.Query, f func(ledger.Entry) error) error {
			for range n {
				if err := f(ledger.Entry{ID: "a", At: time.Unix(1, 0)}); err != nil {
					return err
				}
			}
			return errors.New("the disk is gone")
		}}}
		s := httptest.NewServer(http.HandlerFunc(g.entries))
		defer s.Close()
		for _, format := range []string{"json", "csv"} {
			res, err := http.Get(s.URL + "?format=" + format)
			if err != nil {
				t.Fatal(n, err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != want || (err != nil) != (n > 0) || (n == 0) != strings.Contains(string(body), "the disk is gone") {
				t.Errorf("%d entries as %s: %d, %d bytes, %v", n, format, res.StatusCode, len(body), err)
			}
		}
	}
}
