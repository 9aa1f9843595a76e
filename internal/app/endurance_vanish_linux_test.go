package app_test

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/net/http2"
)

// vanish makes a connection's peer unable to hear of it any more: whatever
// arrives for the socket is dropped before TCP sees it, so nothing is
// acknowledged and nothing refused, as if the cable had been cut.
func vanish(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := [1]syscall.SockFilter{{Code: syscall.BPF_RET | syscall.BPF_K}}
	prog := syscall.SockFprog{Len: 1, Filter: &drop[0]}
	var errno syscall.Errno
	if err := raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall6(syscall.SYS_SETSOCKOPT, fd, syscall.SOL_SOCKET, syscall.SO_ATTACH_FILTER,
			uintptr(unsafe.Pointer(&prog)), unsafe.Sizeof(prog), 0)
	}); err != nil || errno != 0 {
		t.Fatal(err, errno)
	}
}

// Clients that are gone without having said so. A stream that fills its socket
// ends by the write timeout. One so slow that no write ever blocks ends when the
// kernel gives up, which takes 15 s instead of as many minutes where it knows
// how to; that is waited for by all of them together. The provider is told.
func TestClientVanishes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir, "localhost")
	var gone []departure
	for what, c := range map[string]setup{
		"own loop": {},
		"net/http": {API: "fast_path: off"},
		"TLS":      {API: secure(dir, "")},
		"HTTP/2":   {},
	} {
		c.More = "stream: {write_timeout: 500ms}"
		g := start(t, c)
		if what != "HTTP/2" {
			var over *tls.Config
			if what == "TLS" {
				over = &tls.Config{RootCAs: pool, ServerName: "localhost"}
			}
			gone = append(gone, leave(t, g, over, what+", fast", "bytes-per-token=1000", 5*time.Second))
			if kernelGivesUp() {
				gone = append(gone, leave(t, g, over, what+", slow", "token-gap=100ms", 25*time.Second))
			}
		} else if kernelGivesUp() {
			gone = append(gone, leaveHTTP2(t, g))
		}
	}
	slices.SortFunc(gone, func(a, b departure) int { return cmp.Compare(a.most, b.most) })
	for _, d := range gone {
		for !d.ended() && time.Since(d.at) < d.most {
			time.Sleep(10 * time.Millisecond)
		}
		if t.Logf("%s: ended after at most %v", d.what, time.Since(d.at).Round(time.Millisecond)); !d.ended() {
			t.Errorf("%s: the stream goes on", d.what)
		}
	}
	for _, d := range gone {
		wait(t, d.what+": nothing to be left", func() bool {
			return d.g.metric("headgate_streams_open") == 0 && d.g.metric("headgate_inflight_requests") == 0 && d.g.Fake.Stats().InFlight == 0
		})
		if n := d.g.metric("headgate_requests_total", `outcome="ok"`); n != 0 {
			t.Errorf("%s: %v ended well", d.what, n)
		}
		if n := d.g.metric("headgate_faults_total") - d.g.metric("headgate_faults_total", `kind="slow_client"`) - d.g.metric("headgate_faults_total", `kind="canceled"`); n != 0 {
			t.Errorf("%s: %v other faults", d.what, n)
		}
	}
}

// departure is a client that has vanished.
type departure struct {
	g     *Gateway
	what  string
	at    time.Time
	most  time.Duration
	ended func() bool
}

// kernelGivesUp is whether the kernel knows TCP_RTO_MAX_MS.
func kernelGivesUp() bool {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	return syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, 44, 1000) == nil
}

// leave vanishes from the middle of a stream, which must end within a time.
func leave(t *testing.T, g *Gateway, over *tls.Config, what, pace string, most time.Duration) departure {
	t.Helper()
	id := strings.NewReplacer(" ", "", ",", "-", "/", "").Replace(what)
	body := streamBody("tokens=1000000+" + pace)
	plain, err := net.Dial("tcp", g.API())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	conn := plain
	if over != nil {
		conn = tls.Client(plain, over)
	}
	_ = plain.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s", chatPath, g.Key, id, len(body), body)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	vanish(t, plain)
	return departure{g, what, time.Now(), most, func() bool {
		return g.admin("GET", "/admin/v1/requests/"+id).StatusCode == 200
	}}
}

// leaveHTTP2 vanishes from a connection with many streams.
func leaveHTTP2(t *testing.T, g *Gateway) departure {
	t.Helper()
	f, _ := dial(t, g.API(), nil)
	const n = 20
	for range n {
		if _, err := f.call(streamBody("tokens=1000000+token-gap=100ms")); err != nil {
			t.Fatal(err)
		}
	}
	for running := map[uint32]bool{}; len(running) < n; {
		frame, err := f.f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := frame.(*http2.DataFrame); ok {
			running[d.StreamID] = true
		}
	}
	vanish(t, f.conn)
	return departure{g, "HTTP/2", time.Now(), 25 * time.Second, func() bool { return g.Fake.Stats().InFlight == 0 }}
}

// A client that sent half of a head or of a body and vanished is ended by the
// bounds on both; nothing of it stays.
func TestClientVanishesWhileSending(t *testing.T) {
	t.Parallel()
	g := start(t, setup{API: "header_timeout: 300ms\nbody_timeout: 300ms\nidle_timeout: 300ms"})
	texts := []string{
		"", "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nX-",
		"POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\nContent-Length: 1000\r\n\r\n{\"model\":",
		"PUT /v1/nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
	}
	for range 10 {
		for _, text := range texts {
			c, _ := raw(t, g)
			_, _ = io.WriteString(c, text)
			vanish(t, c)
		}
	}
	wait(t, "all of them to be gone", func() bool {
		return g.metric("headgate_inflight_requests") == 0 && established(t, g.API()) == 0
	})
}

// established is how many connections the gateway's side holds.
func established(t *testing.T, addr string) (n int) {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	var p int
	_, _ = fmt.Sscan(port, &p)
	local := fmt.Sprintf("0100007F:%04X", p)
	for _, line := range strings.Split(readFile(t, "/proc/net/tcp"), "\n") {
		f := strings.Fields(line)
		const established, inode = "01", 9
		if len(f) > inode && f[1] == local && f[3] == established && f[inode] != "0" {
			n++
		}
	}
	return n
}
