//go:build unix

package socket_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/socket"
)

// pair is a connection over loopback and the Conn of one end.
func pair(t testing.TB) (near, far net.Conn, c *socket.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	raw, err := near.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return near, far, socket.New(raw)
}

// Whatever the parts are, and however slowly they are read, they arrive once
// and in order.
func TestWriteParts(t *testing.T) {
	near, far, c := pair(t)
	random := rand.New(rand.NewPCG(1, 2))
	var want bytes.Buffer
	sizes := []int{0, 1, 7, 4096, 100_000, 3 << 20}
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(far)
		got <- b
	}()
	for range 40 {
		var parts [3][]byte
		for i := range parts {
			parts[i] = make([]byte, sizes[random.IntN(len(sizes))])
			for j := range parts[i] {
				parts[i][j] = byte(random.Uint32())
			}
			want.Write(parts[i])
		}
		n, err := c.Write(parts[0], parts[1], parts[2])
		if sum := len(parts[0]) + len(parts[1]) + len(parts[2]); err != nil || n != int64(sum) {
			t.Fatalf("%d of %d bytes, %v", n, sum, err)
		}
	}
	if err := near.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b := <-got; !bytes.Equal(b, want.Bytes()) {
		t.Errorf("%d bytes arrived, want the %d that were written", len(b), want.Len())
	}
}

func TestReadWaitsAndEnds(t *testing.T) {
	n, far, c := pair(t)
	go func() {
		time.Sleep(20 * time.Millisecond)
		far.Write([]byte("hello"))
		far.Close()
	}()
	p := make([]byte, 100)
	if k, err := c.Read(p); err != nil || string(p[:k]) != "hello" {
		t.Errorf("%q, %v", p[:k], err)
	}
	if k, err := c.Read(p); k != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", k, err)
	}
	n.Close()
	if _, err := c.Read(p); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestDeadlines(t *testing.T) {
	n, _, c := pair(t)
	n.SetDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	sent, err := c.Write(make([]byte, 64<<20), nil, nil) // more than any buffer takes
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %d bytes, %v", sent, err)
	}
}

func TestBrokenPipe(t *testing.T) {
	_, far, c := pair(t)
	far.(*net.TCPConn).SetLinger(0)
	far.Close()
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		if _, err := c.Write([]byte("x"), nil, nil); err != nil {
			if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%v", err)
			}
			return
		}
	}
	t.Error("no write failed")
}

func TestAllocations(t *testing.T) {
	_, far, c := pair(t)
	in, out := make([]byte, 64), make([]byte, 64)
	if n := testing.AllocsPerRun(200, func() {
		c.Write(out[:20], out[20:40], out[40:])
		io.ReadFull(far, in)
		far.Write(in)
		c.Read(in)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
