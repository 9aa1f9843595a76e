package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/headgate-ai/headgate/lab/procfs"
)

// key is the clients' key.
const key = "sk-soak-0123456789abcdef"

// grace is how long the gateway lets streams go on after SIGTERM.
func (o *Options) grace() time.Duration {
	if o.Hold > 0 {
		return o.For
	}
	return 4 * time.Second
}

// stand is a gateway and its provider, each in a process of its own.
type stand struct {
	dir        string
	provider   *exec.Cmd
	gateway    *exec.Cmd
	ended      chan error // of the gateway
	api, admin string     // with http://
	config     string     // the file
	text       string     // what is in it
	client     *http.Client
}

const configuration = `server:
  api: {listen: "API", shutdown_grace: GRACE}
  admin: {listen: "ADMIN"}
providers:
  - {name: own, dialect: openai, base_url: "SIM/v1", transport: h1}
  - {name: std, dialect: openai, base_url: "SIM/v1", transport: std}
  - {name: anthropic, dialect: anthropic, base_url: "SIM"}
models:
  - {name: "own-*", targets: [{provider: own}]}
  - {name: "std-*", targets: [{provider: std}]}
  - {name: "claude-*", targets: [{provider: anthropic}]}
keys: [{name: soak, secret: "literal:` + key + `", tenant: soak}]
stream: {write_timeout: 8s}
journal: {log: {path: "LOG"}}
`

// build starts both and waits until the gateway is ready.
func build(ctx context.Context, o *Options) (_ *stand, err error) {
	s := &stand{ended: make(chan error, 1), client: &http.Client{Timeout: 10 * time.Second}}
	if s.dir, err = os.MkdirTemp("", "headgate-soak-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.raze()
		}
	}()
	sim, err := s.simulate(o)
	if err != nil {
		return nil, err
	}
	var free [2]string
	for i := range free {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		free[i] = l.Addr().String()
		defer l.Close()
		_ = l.Close()
	}
	s.api, s.admin = "http://"+free[0], "http://"+free[1]
	s.text = strings.NewReplacer("API", free[0], "ADMIN", free[1], "SIM", sim, "GRACE", o.grace().String(), "LOG", s.log()).Replace(configuration)
	s.config = filepath.Join(s.dir, "headgate.yaml")
	if err = os.WriteFile(s.config, []byte(s.text), 0o600); err != nil {
		return nil, err
	}
	s.gateway = exec.Command(o.Binary, "serve", "--config", s.config)
	s.gateway.Stderr = o.Out
	if err = s.gateway.Start(); err != nil {
		return nil, err
	}
	go func() { s.ended <- s.gateway.Wait() }()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err = s.get("/readyz"); err == nil {
			return s, nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return nil, fmt.Errorf("the gateway is not ready: %w", err)
		}
	}
}

func (s *stand) log() string { return filepath.Join(s.dir, "access.log") }

// simulate starts the provider and returns its address.
func (s *stand) simulate(o *Options) (string, error) {
	s.provider = exec.Command(o.Binary, "simulate", "--listen", "127.0.0.1:0", "--json", "--stamp", "1", "--first-token", "5ms", "--token-gap", "10ms", "--tokens", "40")
	out, err := s.provider.StdoutPipe()
	if err != nil {
		return "", err
	}
	s.provider.Stderr = o.Out
	if err := s.provider.Start(); err != nil {
		return "", err
	}
	var said struct{ Address string }
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		return "", fmt.Errorf("the simulator does not start: %w", err)
	}
	return said.Address, nil
}

// raze ends what still runs.
func (s *stand) raze() {
	for _, c := range []*exec.Cmd{s.gateway, s.provider} {
		if c != nil && c.Process != nil {
			_ = c.Process.Kill()
		}
	}
	if s.gateway != nil && s.gateway.Process != nil {
		<-s.ended
	}
	if s.provider != nil && s.provider.Process != nil {
		_ = s.provider.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

// get reads from the operators' listener.
func (s *stand) get(path string) ([]byte, error) {
	res, err := s.client.Get(s.admin + path)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d", path, res.StatusCode)
	}
	return b, err
}

// hangUp rotates the log away and sends SIGHUP.
func (s *stand) hangUp() error {
	if err := os.Rename(s.log(), s.log()+".1"); err != nil {
		return err
	}
	return s.gateway.Process.Signal(syscall.SIGHUP)
}

// rewrite changes the file as an editor does, which loads it; a broken one is
// refused and changes nothing.
func (s *stand) rewrite(n int, broken bool) error {
	text := fmt.Sprintf("# %d\n%s", n, s.text)
	if broken {
		text += "nonsense: true\n"
	}
	if err := os.WriteFile(s.config+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(s.config+".new", s.config)
}

// sample is what the gateway's process takes up.
type sample struct {
	at                    time.Duration
	rss, goroutines, open float64 // bytes, and counts
	metrics               map[string]float64
}

// look takes one.
func (s *stand) look(began time.Time) (sample, error) {
	v := sample{at: time.Since(began)}
	pid := s.gateway.Process.Pid
	fds, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		return v, err
	}
	_, resident, err := procfs.CPUAndResident(pid)
	if err != nil {
		return v, err
	}
	text, err := s.get("/metrics")
	if err != nil {
		return v, err
	}
	v.rss, v.open, v.metrics = float64(resident), float64(len(fds)), map[string]float64{}
	for line := range bytes.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(string(line)), "} ")
		if ok {
			name += "}"
		} else {
			name, value, _ = strings.Cut(name, " ")
		}
		if n, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(name, "#") {
			v.metrics[name] = n
		}
	}
	v.goroutines = v.metrics["go_goroutines"]
	return v, nil
}

// settled takes one after collections: what is in use shows only then, and the
// kernel gets the rest back little by little.
func (s *stand) settled(began time.Time) (sample, error) {
	for range 2 {
		if _, err := s.get("/debug/pprof/heap?gc=1"); err != nil {
			return sample{}, err
		}
	}
	return s.look(began)
}

// sum adds the metrics whose names begin so.
func (v *sample) sum(prefix string) (n float64) {
	for name, value := range v.metrics {
		if strings.HasPrefix(name, prefix) {
			n += value
		}
	}
	return n
}

// stop sends SIGTERM and waits for a clean end.
func (s *stand) stop(within time.Duration) error {
	began := time.Now()
	if err := s.gateway.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-s.ended:
		s.ended <- err
		if err != nil {
			return fmt.Errorf("the drained gateway ended with %w", err)
		}
		return nil
	case <-time.After(within):
		return fmt.Errorf("the gateway still runs %v after SIGTERM", time.Since(began).Round(time.Second))
	}
}
