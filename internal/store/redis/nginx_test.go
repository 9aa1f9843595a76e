package redis

import (
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
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/lab/fake"
)

// deployment is the folder that is shipped.
const deployment = "../../../deploy/nginx"

// deploy copies the shipped nginx, to listen at an address before a provider with a
// limit in a Redis.
func deploy(t *testing.T, address, provider string, redis *server, burst int) (dir string) {
	t.Helper()
	changes := map[string]string{
		"listen 127.0.0.1:8081;": "listen " + address + ";",
		"server 127.0.0.1:8080;": "server " + strings.TrimPrefix(provider, "http://") + ";",
		"port = 6379,":           fmt.Sprintf("port = %d,", redis.port),
		"timeout = 50,":          "timeout = 5000,",
		"burst = 100,":           fmt.Sprintf("burst = %d,", burst),
	}
	dir = t.TempDir()
	for _, name := range []string{"nginx.conf", "limit.lua", "counts.lua"} {
		b, err := os.ReadFile(filepath.Join(deployment, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for was, is := range changes {
			if name == "nginx.conf" && strings.Count(text, was) != 1 {
				t.Fatalf("nginx.conf has not one %q", was)
			}
			text = strings.ReplaceAll(text, was, is)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// nginx starts the shipped nginx, and gives its address.
func nginx(t *testing.T, redis *server, provider string, burst int) string {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // not in everybody's path
	}
	for _, file := range []string{program, "/usr/lib/nginx/modules/ngx_http_lua_module.so"} {
		if _, err := os.Stat(file); err != nil {
			t.Skip("there is no nginx with Lua; to run this test, install the Debian packages nginx and libnginx-mod-http-lua")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	dir := deploy(t, address, provider, redis, burst)
	var log strings.Builder
	cmd := exec.Command(program, "-p", dir+"/", "-c", "nginx.conf", "-g", "daemon off;")
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // the workers end with it
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return "http://" + address
		}
		if time.Now().After(end) {
			t.Fatal("nginx does not listen")
		}
	}
}

// answers counts answers by their status.
type answers struct {
	mu sync.Mutex
	of map[int]int
}

// chat sends a call through nginx.
func (a *answers) chat(t *testing.T, c *http.Client, url string) http.Header {
	res, err := c.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"sim-small","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Error(err)
		return nil
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[res.StatusCode]++
	return res.Header
}

// The shipped nginx keeps a limit: at twice the rate, it lets half of the requests
// through to the provider, and answers the rest. Together with a gateway it lets no
// more through than the limit. Without Redis it refuses.
func TestNginx(t *testing.T) {
	timed(t)
	const perSecond, burst = 100, 20
	t.Parallel()
	s := start(t)
	provider := httptest.NewServer(fake.New(fake.Default()))
	defer provider.Close()
	url := nginx(t, s, provider.URL, burst)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()

	warm := answers{of: map[int]int{}}
	for range 3 * burst {
		warm.chat(t, client, url)
	}
	const calls = 4 * 2 * perSecond
	twice := answers{of: map[int]int{}}
	var wg sync.WaitGroup
	for begun, i := time.Now(), 0; i < calls; i++ {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / (2 * perSecond))))
		wg.Go(func() { twice.chat(t, client, url) })
	}
	wg.Wait()
	ratio := float64(twice.of[200]) / calls
	t.Logf("%.3f let through at twice the rate: %v", ratio, twice.of)
	if ratio < 0.475 || ratio > 0.525 || twice.of[200]+twice.of[429] != calls {
		t.Errorf("%v of %d calls at twice the rate, want half of them let through", twice.of, calls)
	}

	g := join(t, s.url(), patient(), quota.Config{Rules: []quota.RuleConfig{{Name: "calls", Requests: quota.RateConfig{Rate: rate(t, "100/s"), Burst: burst}}}})
	both := answers{of: map[int]int{}}
	begun := time.Now()
	for range 4 {
		wg.Go(func() {
			for time.Since(begun) < 3*time.Second {
				both.chat(t, client, url)
				time.Sleep(4 * time.Millisecond)
			}
		})
	}
	theirs := flood(t, []*gateway{g}, 2, 4*time.Millisecond, 3*time.Second, true)
	wg.Wait()
	total, most := float64(both.of[200])+float64(theirs), time.Since(begun).Seconds()*perSecond+burst
	t.Logf("%d through nginx and %d through the gateway, %.0f allowed", both.of[200], theirs, most)
	if lease := burst / 8.0; total > most+lease || total < 0.85*(most-burst) {
		t.Errorf("%.0f let through together, %.0f allowed", total, most)
	}
	if both.of[200] < perSecond/4 || theirs < perSecond/4 {
		t.Errorf("%d through nginx and %d through the gateway", both.of[200], theirs)
	}

	s.down(t)
	gone := answers{of: map[int]int{}}
	if h := gone.chat(t, client, url); gone.of[503] != 1 || h.Get("Retry-After") == "" {
		t.Errorf("without Redis: %v, %v", gone.of, h)
	}
}
