package app_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/cli"
	"github.com/headgate-ai/headgate/lab/fake"
)

const runAsGateway = "HEADGATE_TEST_CONFIG"

// TestProcess is the gateway's own process for the tests below: this binary is
// started again, and serves.
func TestProcess(t *testing.T) {
	path := os.Getenv(runAsGateway)
	if path == "" {
		t.Skip("a part of other tests")
	}
	os.Exit(cli.Main(context.Background(), []string{"serve", "--config", path}, cli.OS()))
}

// process is a gateway in a process of its own.
type process struct {
	*exec.Cmd
	url, admin string
	ended      chan error
}

// launch starts one by a shell, which runs the command before it, such as one
// that lowers a limit.
func launch(t *testing.T, first, yaml string, stderr *os.File) *process {
	t.Helper()
	api, admin := freeAddress(t), freeAddress(t)
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	yaml = strings.NewReplacer("API", api, "ADMIN", admin).Replace(yaml)
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &process{url: "http://" + api, admin: "http://" + admin, ended: make(chan error, 1)}
	p.Cmd = exec.Command("sh", "-c", first+`; exec "$0" -test.run='^TestProcess$'`, os.Args[0])
	p.Env = append(os.Environ(), runAsGateway+"="+path)
	p.Stderr = stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.Wait() }()
	t.Cleanup(func() { _ = p.Process.Kill() })
	wait(t, "the process to be ready", func() bool {
		res, err := http.Get(p.admin + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == 200
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// stop asks it to end, and wants that to be clean.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("the process ended with %v", err)
		}
	case <-time.After(15 * time.Second):
		t.Error("the process does not end")
	}
}

func (p *process) ask(c *http.Client, body string) (int, string, error) {
	r, err := http.NewRequest("POST", p.url+chatPath, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

const processYAML = `server: {api: {listen: "API", shutdown_grace: 2s%s}, admin: {listen: "ADMIN"}}
providers: [{name: p, dialect: openai, base_url: "%s/v1", transport: %s}]
models: [{name: "*", targets: [{provider: p}]}]
keys: [{name: test, secret: "literal:` + key + `", tenant: tests}]
`

// A process that has no descriptor left: who is let in gets a whole answer or a
// clear 503, those that cannot be accepted wait, and when the load is gone so is
// the trouble.
func TestDescriptorsExhausted(t *testing.T) {
	provider := httptest.NewServer(fake.New(fake.Default()))
	t.Cleanup(provider.Close)
	for _, c := range [][2]string{{"", "h1"}, {", fast_path: off", "std"}} {
		what := c[1]
		p := launch(t, "ulimit -n 64", fmt.Sprintf(processYAML, c[0], provider.URL, c[1]), nil)
		transport := &http.Transport{DisableKeepAlives: true}
		client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
		var mu sync.Mutex
		got := map[int]int{}
		var wg sync.WaitGroup
		for range 120 {
			wg.Go(func() {
				status, body, err := p.ask(client, streamBody("tokens=20+token-gap=20ms"))
				_, events := scan(body)
				switch {
				case err != nil:
					t.Errorf("%s: %v", what, err)
				case status == 200:
					if err := complete(events); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				case status != 503 || !strings.Contains(body, `"OVERLOADED"`) || !strings.Contains(body, "no connection to spare"):
					t.Errorf("%s: %d %s", what, status, body)
				}
				mu.Lock()
				got[status]++
				mu.Unlock()
			})
		}
		wg.Wait()
		t.Logf("%s: statuses %v", what, got)
		if got[200] < 10 || got[200] == 120 {
			t.Errorf("%s: %v: the descriptors were not exhausted, or nobody was served", what, got)
		}
		for range 10 {
			if status, body, err := p.ask(client, chatBody); err != nil || status != 200 {
				t.Errorf("%s: afterwards: %d %s %v", what, status, body, err)
			}
		}
		p.stop(t)
		transport.CloseIdleConnections()
	}
}

// Standard error is a pipe whose reader has gone. Neither the access log nor
// what net/http says by itself ends the process.
func TestStandardErrorIsGone(t *testing.T) {
	s := newScript(t)
	unasked := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", len(goldenWhole), goldenWhole)
	s.answer.Store(&unasked)
	s.then.Store(keeps)
	for _, gone := range []bool{true, false} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		said := make(chan []byte, 1)
		p := launch(t, ":", fmt.Sprintf(processYAML, "", "http://"+s.l.Addr().String(), "std"), w)
		_ = w.Close()
		if gone {
			_ = r.Close()
			said <- nil
		} else {
			go func() {
				b, _ := io.ReadAll(r)
				said <- b
			}()
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
		for i := range 20 {
			// net/http takes what came unasked for the answer to the next call, if
			// that is quick enough; the gateway calls that malformed.
			if status, body, err := p.ask(client, chatBody); err != nil || status != 200 && status != 502 {
				t.Fatalf("call %d: %d %s %v", i, status, body, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		metrics, err := http.Get(p.admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(metrics.Body)
		_ = metrics.Body.Close()
		if gone && !bytes.Contains(b, []byte("headgate_log_write_errors_total")) {
			t.Error("the lost lines are not counted")
		}
		p.stop(t)
		for lines := bufio.NewScanner(bytes.NewReader(<-said)); lines.Scan(); {
			if !strings.HasPrefix(lines.Text(), "{") {
				t.Errorf("a line that is not the log's: %s", lines.Text())
			}
		}
		_ = r.Close()
	}
}
