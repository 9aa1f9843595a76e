package chaos

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// echo is a server that says what it hears, and a proxy before it.
func echo(t *testing.T) (*Proxy, *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	heard := new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				n, _ := io.Copy(c, c)
				heard.Store(n)
			}()
		}
	}()
	p, err := New(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, heard
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// say sends text and gives how long the echo took.
func say(t *testing.T, c net.Conn, text string) time.Duration {
	t.Helper()
	begun := time.Now()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("heard %q, %v", got, err)
	}
	return time.Since(begun)
}

// silent checks that nothing comes back.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Write([]byte("lost")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := c.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
	_ = c.SetReadDeadline(time.Time{})
}

func TestLatency(t *testing.T) {
	p, _ := echo(t)
	c := dial(t, p)
	say(t, c, "hello")
	p.Set(Fault{Latency: 60 * time.Millisecond, Jitter: 10 * time.Millisecond})
	if d := say(t, c, "slow"); d < 120*time.Millisecond {
		t.Errorf("there and back in %v", d)
	}
	p.Set(Fault{})
	say(t, c, "again")
}

func TestDropAndHalfOpen(t *testing.T) {
	p, heard := echo(t)
	c := dial(t, p)
	say(t, c, "hello")
	p.Set(Fault{Drop: true})
	silent(t, c)
	p.Set(Fault{HalfOpen: true})
	silent(t, c)
	p.Set(Fault{})
	say(t, c, "world")
	c.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	time.Sleep(10 * time.Millisecond)
	// What was dropped never came; what was half open came, and its answer did not.
	if p.Close(); heard.Load() != int64(len("hello"+"lost"+"world")) {
		t.Errorf("the server heard %d bytes", heard.Load())
	}
}

func TestRefuse(t *testing.T) {
	p, _ := echo(t)
	c := dial(t, p)
	say(t, c, "hello")
	p.Set(Fault{Refuse: true})
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("an open connection: %v, want a reset", err)
	}
	d, err := net.Dial("tcp", p.Address())
	if err == nil {
		if _, err = d.Read(make([]byte, 1)); err == nil {
			t.Error("a new connection was taken")
		}
		d.Close()
	}
	p.Set(Fault{})
	say(t, dial(t, p), "again")
}

func TestBandwidth(t *testing.T) {
	p, _ := echo(t)
	c := dial(t, p)
	p.Set(Fault{Bandwidth: 100_000})
	if d := say(t, c, string(bytes.Repeat([]byte("x"), 20_000))); d < 150*time.Millisecond || d > 5*time.Second {
		t.Errorf("20 kB at 100 kB/s took %v", d)
	}
}

func TestUnreachableTarget(t *testing.T) {
	p, err := New("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		return // it was reset already
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection to nobody")
	}
}
