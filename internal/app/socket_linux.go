package app

import (
	"context"
	"net"
	"syscall"
	"time"
)

// TCP_NOTSENT_LOWAT and TCP_RTO_MAX_MS of linux/tcp.h, which package syscall
// lacks.
const (
	tcpNotSentLowAt = 25
	tcpRTOMax       = 44
)

// mostUnsent is how many bytes a connection takes that are still to be sent.
const mostUnsent = 128 << 10

// listen opens the clients' listener; patience is how long a client may take
// in nothing.
func listen(address string, patience time.Duration) (net.Listener, error) {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if cerr := raw.Control(func(fd uintptr) { err = prepare(int(fd), patience) }); cerr != nil {
			return cerr
		}
		return err
	}}
	// Connections do not inherit these options from a listener for Multipath TCP,
	// which is Go's default.
	c.SetMultipathTCP(false)
	return c.Listen(context.Background(), "tcp", address)
}

// prepare sets on a listener what is to hold for the connections that it
// accepts.
func prepare(fd int, patience time.Duration) error {
	// A client whose machine or network is gone cannot say so, and a few bytes a
	// second never fill the socket, so no write ever blocks. The kernel tries 15
	// times, twice as late each time, which makes a quarter of an hour in which a
	// model writes for nobody; with this bound it is about the patience, at least
	// 15 s. Kernels before 6.15 do not know it. TCP_USER_TIMEOUT would be the
	// older way, but it ends clients that are there and merely slow, too.
	every := min(max(patience/12, time.Second), 2*time.Minute)
	_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpRTOMax, int(every.Milliseconds()))

	// The kernel would take megabytes, and let a writer wait until a third of
	// them is gone: a client that reads slowly, but all the time, would look like
	// one that does not read.
	return syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpNotSentLowAt, mostUnsent)
}
