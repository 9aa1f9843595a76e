package redis

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// server is a Redis of the tests' own, without persistence, on a free port.
type server struct {
	program, dir string
	port         int
	flags        []string
	cmd          *exec.Cmd
	admin        rueidis.Client
}

// start starts a server, and ends it with the test.
func start(t testing.TB, flags ...string) *server {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server; to run this test, install the Debian package redis-server")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{program: program, dir: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port, flags: flags}
	l.Close()
	s.up(t)
	t.Cleanup(func() { s.down(t) })
	return s
}

func (s *server) address() string { return "127.0.0.1:" + strconv.Itoa(s.port) }
func (s *server) url() string     { return "redis://" + s.address() + "/0" }

func (s *server) up(t testing.TB) {
	t.Helper()
	args := append([]string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no"}, s.flags...)
	s.cmd = exec.Command(s.program, args...)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.address()}, ForceSingleClient: true, DisableCache: true})
		if err == nil {
			s.admin = c
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not answer: ", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// down ends the server as a crash would.
func (s *server) down(t testing.TB) {
	t.Helper()
	if s.cmd == nil {
		return
	}
	s.admin.Close()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = s.cmd.Wait()
	s.cmd = nil
}

// do runs one command of a test and gives the answer.
func (s *server) do(t testing.TB, args ...string) rueidis.RedisMessage {
	t.Helper()
	m, err := s.try(t, args...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return m
}

func (s *server) try(t testing.TB, args ...string) (rueidis.RedisMessage, error) {
	return s.admin.Do(t.Context(), s.admin.B().Arbitrary(args...).Build()).ToMessage()
}

// keys are all keys with what is left of their lives.
func (s *server) keys(t testing.TB) map[string]time.Duration {
	t.Helper()
	found := s.do(t, "KEYS", "*")
	names, err := found.AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]time.Duration{}
	for _, name := range names {
		m := s.do(t, "PTTL", name)
		ms, err := m.AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		all[name] = time.Duration(ms) * time.Millisecond
	}
	return all
}

// calls is how many scripts the server has run.
func (s *server) calls(t testing.TB) (n int64) {
	t.Helper()
	m := s.do(t, "INFO", "commandstats")
	text, err := m.ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		var name string
		var calls int64
		if _, err := fmt.Sscanf(strings.NewReplacer(":calls=", " ", ",", " ").Replace(line), "%s %d", &name, &calls); err == nil &&
			(name == "cmdstat_evalsha" || name == "cmdstat_eval") {
			n += calls
		}
	}
	return n
}
