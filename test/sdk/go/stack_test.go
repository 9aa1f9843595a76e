// Package sdk calls Headgate with the official Go SDKs, as users do: real
// processes, real connections, the simulator as the provider.
package sdk

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	wideKey   = "sk-headgate-wide"
	narrowKey = "sk-headgate-narrow"
)

// The addresses of the processes under test, as http://host:port.
var gateway, simulator string

func TestMain(m *testing.M) {
	status, err := withStack(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start the processes under test:", err)
		status = 1
	}
	os.Exit(status)
}

// withStack runs the tests between the start and the end of a simulator and a
// gateway in front of it.
func withStack(run func() int) (status int, err error) {
	dir, err := os.MkdirTemp("", "headgate-sdk-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	binary := os.Getenv("HEADGATE_BIN")
	if binary == "" {
		binary = filepath.Join(dir, "headgate")
		build := exec.Command("go", "build", "-o", binary, "./cmd/headgate")
		build.Dir = "../../.."
		if out, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%w: %s", err, out)
		}
	}

	sim := exec.Command(binary, "simulate", "--listen", "127.0.0.1:0", "--json")
	printed, err := sim.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := sim.Start(); err != nil {
		return 0, err
	}
	defer end(sim)
	var said struct{ Address string }
	if err := json.NewDecoder(printed).Decode(&said); err != nil {
		return 0, fmt.Errorf("headgate simulate: %w", err)
	}
	simulator = said.Address

	template, err := os.ReadFile("../gateway.yaml")
	if err != nil {
		return 0, err
	}
	config := filepath.Join(dir, "headgate.yaml")
	if err := os.WriteFile(config, bytes.ReplaceAll(template, []byte("SIMULATOR"), []byte(simulator)), 0o600); err != nil {
		return 0, err
	}
	gate := exec.Command(binary, "serve", "--config", config, "--log-format", "json")
	log, err := gate.StderrPipe()
	if err != nil {
		return 0, err
	}
	if err := gate.Start(); err != nil {
		return 0, err
	}
	defer end(gate)
	admin, err := addresses(log)
	if err != nil {
		return 0, err
	}
	go io.Copy(io.Discard, log) // or the log's pipe would fill up
	err = waitFor(10*time.Second, func() bool {
		res, err := http.Get(admin + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	if err != nil {
		return 0, fmt.Errorf("the gateway did not turn ready: %w", err)
	}
	return run(), nil
}

// addresses reads the gateway's log until it says where it serves.
func addresses(log io.Reader) (admin string, err error) {
	var all strings.Builder
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		all.Write(line)
		var entry struct{ Msg, API, Admin string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
			gateway = "http://" + entry.API
			return "http://" + entry.Admin, nil
		}
		if err != nil {
			return "", fmt.Errorf("headgate serve: %w: %s", err, all.String())
		}
	}
}

func end(process *exec.Cmd) {
	_ = process.Process.Signal(syscall.SIGTERM)
	tooLong := time.AfterFunc(10*time.Second, func() { _ = process.Process.Kill() })
	_ = process.Wait()
	tooLong.Stop()
}

// waitFor returns when ok, or with an error after a time.
func waitFor(within time.Duration, ok func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("still not after %v", within)
		}
	}
	return nil
}

// upstreamRequest is what the simulator keeps of a request.
type upstreamRequest struct {
	Path    string
	Header  http.Header
	Body    []byte
	Model   string
	Status  int
	Outcome string
}

// seen are the requests that reached the simulator under a request id.
func seen(t *testing.T, id string) (found []upstreamRequest) {
	t.Helper()
	var all []upstreamRequest
	control(t, "/_sim/requests", &all)
	for _, r := range all {
		if r.Header.Get("X-Request-Id") == id {
			found = append(found, r)
		}
	}
	return found
}

// seenOnce is the one request that reached the simulator under a request id.
func seenOnce(t *testing.T, id string) upstreamRequest {
	t.Helper()
	found := seen(t, id)
	if len(found) != 1 {
		t.Fatalf("%d requests reached the simulator as %s, want 1", len(found), id)
	}
	return found[0]
}

func statuses(t *testing.T, id string) (all []int) {
	t.Helper()
	for _, r := range seen(t, id) {
		all = append(all, r.Status)
	}
	return all
}

// streamsCancelled is how many streams the simulator saw cancelled.
func streamsCancelled(t *testing.T) int {
	t.Helper()
	var stats struct {
		StreamsCancelled int `json:"streams_cancelled"`
	}
	control(t, "/_sim/stats", &stats)
	return stats.StreamsCancelled
}

func control(t *testing.T, path string, into any) {
	t.Helper()
	res, err := http.Get(simulator + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// wantCancelled fails unless the simulator sees within a second that the
// client of a request has left.
func wantCancelled(t *testing.T, id string) {
	t.Helper()
	if err := waitFor(time.Second, func() bool { return seenOnce(t, id).Outcome == "cancelled" }); err != nil {
		t.Errorf("the provider has not seen the abort: %v; %s", err, seenOnce(t, id).Outcome)
	}
}

// recorder is middleware for either SDK that keeps what was sent last.
type recorder struct {
	path, contentType string
	header            http.Header
	body              []byte
}

func (rec *recorder) middleware(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	rec.path, rec.contentType, rec.header = r.URL.Path, r.Header.Get("Content-Type"), r.Header.Clone()
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		rec.body = body
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return next(r)
}

// direct gives the simulator the bytes that the gateway was given. Its answer
// is a function of every byte of the body, so an equal answer through the
// gateway proves that the body arrived there byte for byte, whatever its size.
func (rec *recorder) direct(t *testing.T) []byte {
	t.Helper()
	res, err := http.Post(simulator+rec.path, rec.contentType, bytes.NewReader(rec.body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("the simulator itself answered %d, %v: %s", res.StatusCode, err, answer)
	}
	return answer
}

var calls atomic.Int64

// newID is a request id by which the simulator's records are found.
func newID() string { return fmt.Sprintf("sdk-test-go-%d-%d", os.Getpid(), calls.Add(1)) }

var stamp = regexp.MustCompile(`~(\d+)\.(\d+)~`)

// wantStamps fails unless a text holds the simulator's stamps ~0.TIME~ to
// ~(n-1).TIME~ in order. It returns the time of the last one.
func wantStamps(t *testing.T, text string, n int) (last time.Time) {
	t.Helper()
	found := stamp.FindAllStringSubmatch(text, -1)
	if len(found) != n {
		t.Errorf("%d tokens, want %d: %q", len(found), n, text)
	}
	for i, m := range found {
		if m[1] != strconv.Itoa(i) {
			t.Errorf("token %s stands at place %d", m[1], i)
		}
		nanos, _ := strconv.ParseInt(m[2], 10, 64)
		last = time.Unix(0, nanos)
	}
	return last
}

// longText is a text of at least so many bytes, with spaces, escapes and
// characters of several bytes; no two lines are equal.
func longText(size int) string {
	line := strings.Repeat(" 運河 gate \"quoted\" \\ 🌊 ", 100)
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%d%s\n", i, line)
	}
	return b.String()
}

// oddSchema has keys in no sorted order, and numbers that a JSON parser would
// write otherwise.
const oddSchema = `{"type":"object","required":["zone","amount"],"properties":{"zone":{"type":"string","description":"\u00e9\/\ud83c\udf0a"},` +
	`"amount":{"minimum":1.0,"type":"number","maximum":12345678901234567890,"multipleOf":1E-2},"10":{"type":"boolean"},"9":{"type":"null"}}}`

// parallel runs n at the same time and fails with the errors they return.
func parallel(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
