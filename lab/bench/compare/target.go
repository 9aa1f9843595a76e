package compare

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/lab/bench/mock"
)

// target is what stands between the load and the provider.
type target struct {
	name string
	// fastPath and transport are settings of a gateway; both are empty for what
	// is not one.
	fastPath, transport string
	// admission switches on what admissionYAML says.
	admission bool
}

func (t target) gateway() bool { return t.transport != "" }

// The targets' names.
const (
	direct    = "direct"     // nothing in between
	baseline  = "stdproxy"   // the bare reverse proxy
	headgate  = "headgate"   // as it is by default
	admission = "admission"  // the same, with rules, a budget, prices, a ledger and tokens
	ownClient = "own client" // Go's server, our own client
	standard  = "net/http"   // Go's server and Go's client
)

// targets are all that can be compared.
var targets = []target{
	{name: direct},
	{name: baseline},
	{name: headgate, fastPath: "auto", transport: "auto"},
	// Beside the one that it is compared with: less changes between their runs.
	{name: admission, fastPath: "auto", transport: "auto", admission: true},
	{name: ownClient, fastPath: "off", transport: "auto"},
	{name: standard, fastPath: "off", transport: "std"},
}

const (
	clientModel = "mock-model" // as clients call it
	keyCount    = 1000
	usedKey     = keyCount / 2 // the one that the load comes with
)

func keySecret(n int) string { return fmt.Sprintf("sk-bench-%04d-%032x", n, n*7919) }

// configuration switches on what a gateway in earnest has on: keys, usage,
// metrics, the journal, and an access log in a file of dir.
func (t target) configuration(api, admin, upstream, dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `server:
  api: {listen: %q, fast_path: %q}
  admin: {listen: %q}
auth: keys
providers:
  - name: mock
    dialect: openai
    base_url: %q
    credentials: [{secret: "literal:sk-provider"}]
    transport: %s
models:
  - {name: %s, targets: [{provider: mock, model: %s}]}
journal:
  log: {path: %q}
`, api, t.fastPath, admin, upstream+"/v1", t.transport, clientModel, mock.Model, filepath.Join(dir, "access.log"))
	if t.admission {
		b.WriteString(admissionPart(dir))
	}
	b.WriteString("keys:\n")
	for n := range keyCount {
		fmt.Fprintf(&b, "  - {name: key-%04d, secret: \"literal:%s\", tenant: tenant-%02d}\n", n, keySecret(n), n%50)
	}
	return b.String()
}

// process is one that a run has started.
type process struct {
	cmd     *exec.Cmd
	address string
	// ready is the time from its start to its readiness.
	ready time.Duration
	said  *tail
	ended chan struct{}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends the process and waits for its end.
func (p *process) stop() {
	_ = p.cmd.Process.Kill() // it keeps nothing that is needed
	<-p.ended
}

// start runs a command. It ends with ctx or with this process.
func start(ctx context.Context, path string, args ...string) (*process, io.Reader, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	said := &tail{}
	cmd.Stderr, cmd.SysProcAttr = said, dieWithParent()
	// The environment of the caller must not configure a gateway under test.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	r, w := io.Pipe()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	p := &process{cmd: cmd, said: said, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		_ = w.Close()
		close(p.ended)
	}()
	return p, r, nil
}

// startRole runs this command again as one of its roles, which first says where
// it listens.
func startRole(ctx context.Context, role string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	p, out, err := start(ctx, self, append([]string{role}, args...)...)
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%s does not start: %s", role, p.said)
	}
	p.address, p.ready = strings.TrimSpace(line), time.Since(begun)
	return p, nil
}

// startMock runs the provider.
func startMock(ctx context.Context, c mock.Config) (*process, error) {
	return startRole(ctx, "mock", fmt.Sprintf("-stream=%t", c.Stream), fmt.Sprintf("-tokens=%d", c.Tokens),
		fmt.Sprintf("-token-bytes=%d", c.TokenBytes), fmt.Sprintf("-gap=%s", c.Gap))
}

// readyTimeout bounds the start of a gateway.
const readyTimeout = 20 * time.Second

// startGateway runs the gateway until it says that it is ready.
func startGateway(ctx context.Context, binary, dir string, t target, upstream string) (*process, error) {
	free, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "headgate.yaml")
	content := t.configuration(free[0], free[1], upstream, dir)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		return nil, err
	}
	begun := time.Now()
	p, out, err := start(ctx, binary, "serve", "--config", file)
	if err != nil {
		return nil, err
	}
	go func() { _, _ = io.Copy(p.said, out) }()
	p.address = free[0]
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for time.Since(begun) < readyTimeout {
		select {
		case <-p.ended:
			return nil, fmt.Errorf("the gateway has ended: %s", p.said)
		case <-time.After(2 * time.Millisecond):
		}
		resp, err := client.Get("http://" + free[0] + "/readyz")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			p.ready = time.Since(begun)
			return p, nil
		}
	}
	p.stop()
	return nil, fmt.Errorf("the gateway is not ready after %s: %s", readyTimeout, p.said)
}

// freeAddresses finds ports that nobody uses now. Another process may take one
// before the gateway does, which then says so.
func freeAddresses(n int) (all []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}

// start runs a target in front of a provider; nil is the provider itself.
func (t target) start(ctx context.Context, binary, dir, upstream string) (*process, error) {
	switch {
	case t.gateway():
		return startGateway(ctx, binary, dir, t, upstream)
	case t.name == baseline:
		return startRole(ctx, "proxy", "-upstream="+upstream)
	}
	return nil, nil
}

// tail keeps the last of what a process says, for when it fails.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailSize = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if extra := len(t.b) - tailSize; extra > 0 {
		t.b = t.b[:copy(t.b, t.b[extra:])]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}

var errNoBinary = errors.New("build the gateway first: make build")
