//go:build linux

package h1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/race"
)

func TestShutdownWaitsForOpenAnswers(t *testing.T) {
	begun, release := make(chan struct{}, 2), make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("X-Stream") != "" {
			_ = http.NewResponseController(w).Flush()
		}
		begun <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "done")
	})
	idle, silent, unary, streamed := s.dial(), s.dial(), s.dial(), s.dial()
	unary.send(post("x"))
	streamed.send(post("x", "X-Stream: 1\r\n"))
	<-begun
	<-begun
	go func() { begun <- struct{}{} }()
	idle.send(strings.Replace(post("x"), hot, "/p", 1))
	<-begun
	<-begun
	within(t, time.Second, "four connections", func() bool { return len(s.all()) == 4 })

	if err := shutdown(t, s, 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with open answers: %v", err)
	}
	silent.wantEnd()
	if _, err := net.Dial("tcp", s.addr); err == nil {
		t.Error("still accepts")
	}
	done := make(chan error, 1)
	go func() { done <- shutdown(t, s, 5*time.Second) }()
	time.Sleep(20 * time.Millisecond)
	close(release)
	if r := unary.wantAnswer(200, "done"); !r.Close {
		t.Error("no Connection: close")
	}
	unary.wantEnd()
	streamed.wantAnswer(200, "done")
	streamed.wantEnd() // without Connection: close, its head had gone
	idle.wantAnswer(200, "done")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestShutdownEndsIdleConnections(t *testing.T) {
	s := start(t, echo)
	p, q := s.dial(), s.dial()
	p.send(post("x"))
	p.wantAnswer(200, "x")
	q.send(strings.Replace(post("x"), hot, "/other", 1))
	q.wantAnswer(200, "x")
	time.Sleep(10 * time.Millisecond)
	if err := shutdown(t, s, 5*time.Second); err != nil {
		t.Error(err)
	}
	p.wantEnd()
	q.wantEnd()
	if err := s.Serve(noListener{}); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}

type noListener struct{ net.Listener }

func (noListener) Close() error { return nil }

func TestShutdownWaitsForNetHTTP(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	s := start(t, func(http.ResponseWriter, *http.Request) { close(begun); <-release })
	p := s.dial()
	p.send("GET /other HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	if err := shutdown(t, s, 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(release)
	p.wantAnswer(200, "")
	if err := shutdown(t, s, 5*time.Second); err != nil {
		t.Error(err)
	}
}

func TestCloseCutsEverything(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	s := start(t, leaver(begun, ended, true))
	p := s.dial()
	p.send(post("x"))
	<-begun
	_ = s.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r, err := http.ReadResponse(p.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r.Body); err == nil {
		t.Error("the answer that was cut looks whole")
	}
}

func TestBaseContextEnds(t *testing.T) {
	base, end := context.WithCancelCause(context.Background())
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	s := start(t, leaver(begun, ended, false), func(c *Config) { c.BaseContext = base })
	p := s.dial()
	p.send(post("x"))
	<-begun
	cause := errors.New("draining")
	end(cause)
	if err := <-ended; !errors.Is(err, cause) {
		t.Error(err)
	}
}

func TestMaxConnections(t *testing.T) {
	s := start(t, echo, func(c *Config) { c.MaxConnections = 2 })
	a, b, c := s.dial(), s.dial(), s.dial()
	a.send(post("a"))
	a.wantAnswer(200, "a")
	b.send("POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nb") // net/http's
	b.wantAnswer(200, "b")
	c.send(post("c"))
	time.Sleep(50 * time.Millisecond)
	if st := s.Stats(); st.Accepted != 2 || st.Open != 2 {
		t.Errorf("stats %+v", st)
	}
	_ = b.Close()
	c.wantAnswer(200, "c")
	_ = a.Close()
	d := s.dial()
	d.send(post("d"))
	d.wantAnswer(200, "d")
}

// TestOutOfDescriptors runs a server that may have few of them.
func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	if os.Getenv("H1_FEW") != "" {
		fewDescriptors()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOutOfDescriptors$")
	cmd.Env = append(os.Environ(), "H1_FEW=1")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addr: strings.TrimSpace(addr)}
	var held []*peer
	for range 60 {
		held = append(held, s.dial())
	}
	held[0].send(post("early"))
	held[0].wantAnswer(200, "early")
	time.Sleep(100 * time.Millisecond)
	for _, p := range held[1:] {
		_ = p.Close()
	}
	p := s.dial()
	_ = p.SetDeadline(time.Now().Add(5 * time.Second))
	p.send(post("late"))
	p.wantAnswer(200, "late")
	held[0].send(post("again"))
	held[0].wantAnswer(200, "again")
}

func fewDescriptors() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return
	}
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 24, Max: 24})
	s := New(Config{Handler: http.HandlerFunc(echo), Known: func(string) bool { return true }})
	go s.Serve(l)
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = s.Close()
}

// TestMemoryOfAnOpenStream measures what one stream costs, the client's half of
// the connection in the same process included.
func TestMemoryOfAnOpenStream(t *testing.T) {
	const n = 400
	var begun sync.WaitGroup
	release := make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 64)
		for {
			if _, err := r.Body.Read(b); err != nil {
				break
			}
		}
		_, _ = io.WriteString(w, "data: token\n\n")
		_ = http.NewResponseController(w).Flush()
		begun.Done()
		<-release
	})
	before := inUse()
	begun.Add(n)
	conns := make([]net.Conn, n)
	req := []byte(post("{}"))
	for i := range conns {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c
		_, _ = c.Write(req)
	}
	begun.Wait()
	each := (inUse() - before) / n
	t.Logf("%d bytes a stream", each)
	if each > 10<<10 && !race.Enabled {
		t.Errorf("%d bytes a stream", each)
	}
	close(release)
	for _, c := range conns {
		_ = c.Close()
	}
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// TestStalledReader: a client that does not read is not waited for when its
// handler has returned.
func TestStalledReader(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var own *Server
	own = New(Config{
		HeaderTimeout: time.Second, Known: func(string) bool { return true },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = own.all()[0].raw.Control(func(fd uintptr) {
				for b := make([]byte, 64<<10); ; {
					if _, err := syscall.Write(int(fd), b); err != nil {
						return // full
					}
				}
			})
			_, _ = io.WriteString(w, "x")
		}),
	})
	own.finishTimeout = 100 * time.Millisecond
	done := make(chan error, 1)
	go func() { done <- own.Serve(l) }()
	p := (&server{t: t, addr: l.Addr().String()}).dial()
	p.send(post("x"))
	within(t, 3*time.Second, "given up", func() bool { return own.Stats().TimedOut == 1 && own.Stats().Open == 0 })
	_ = own.Close()
	<-done
}

func TestWhichAcceptErrorsPass(t *testing.T) {
	for err, want := range map[error]bool{
		&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}:       true,
		&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.ENFILE)}:       true,
		&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.ECONNABORTED)}: true,
		&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EINVAL)}:       false,
		net.ErrClosed: false,
	} {
		if got := passing(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
