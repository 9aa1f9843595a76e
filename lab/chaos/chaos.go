// Package chaos is a TCP proxy that behaves as bad networks do: slow, jittery,
// narrow, silent, or gone. It stands between a gateway and a service that the
// gateway keeps its counts or its books in. The tests of stores use it, and the
// experiments on outages.
package chaos

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Fault is what the network does. The zero Fault does nothing. It can be changed
// while connections are open, and holds for the bytes that come from then on.
type Fault struct {
	// Latency is added to the bytes of each direction, and up to Jitter more at
	// random. Bytes stay in order.
	Latency, Jitter time.Duration
	// Drop reads bytes and throws them away: both ends wait for each other.
	Drop bool
	// HalfOpen throws away what comes back from the target, which hears and
	// answers: its clients cannot tell it from one that is dead.
	HalfOpen bool
	// Bandwidth is how many bytes a second pass in each direction; 0 is no bound.
	Bandwidth int64
	// Refuse resets the connections that are open and every new one.
	Refuse bool
}

// Proxy hands connections on to one address.
type Proxy struct {
	target string
	l      net.Listener
	done   chan struct{}
	wg     sync.WaitGroup

	mu     sync.Mutex
	fault  Fault
	closed bool
	open   map[net.Conn]bool
}

// New starts a proxy on a free port of the loopback for a target, which is a
// host:port and need not be reachable yet.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, l: l, done: make(chan struct{}), open: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Address is where the proxy listens, as host:port.
func (p *Proxy) Address() string { return p.l.Addr().String() }

// Set makes a fault the one that holds from now on.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	if f.Refuse {
		for c := range p.open {
			reset(c)
		}
	}
}

// reset ends a connection without a farewell.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// Close ends the proxy and every connection.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	close(p.done)
	err := p.l.Close()
	for c := range p.open {
		reset(c)
	}
	p.mu.Unlock()
	p.wg.Wait()
	return err
}

func (p *Proxy) now() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// keep notes an open connection; false where it must not be.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.fault.Refuse {
		reset(c)
		return false
	}
	p.open[c] = true
	return true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	_ = c.Close()
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && p.keep(c) {
			p.wg.Go(func() { p.serve(c) })
		}
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer p.drop(client)
	target, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil {
		reset(client)
		return
	}
	if !p.keep(target) {
		return
	}
	defer p.drop(target)
	back := make(chan struct{})
	p.wg.Go(func() {
		defer close(back)
		p.carry(client, target, true)
	})
	p.carry(target, client, false)
	<-back
}

// parcel is bytes and when they are due at the other end. Nil bytes are the end.
type parcel struct {
	bytes []byte
	due   time.Time
}

// parcels bounds what one direction has under way: as much as a sender's and a
// receiver's buffers would hold.
const parcels = 1024

// carry copies one direction until it ends.
func (p *Proxy) carry(to, from net.Conn, answers bool) {
	way := make(chan parcel, parcels)
	p.wg.Go(func() { p.deliver(to, way) })
	defer close(way)
	var last time.Time
	for {
		b := make([]byte, 16<<10)
		n, err := from.Read(b)
		f := p.now()
		if n > 0 && !f.Drop && (!f.HalfOpen || !answers) {
			due := time.Now().Add(f.Latency)
			if f.Jitter > 0 {
				due = due.Add(rand.N(f.Jitter))
			}
			if due.Before(last) {
				due = last
			}
			last = due
			if !p.put(way, parcel{b[:n], due}) {
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) && !f.Drop {
				p.put(way, parcel{due: time.Now().Add(f.Latency)})
			}
			return
		}
	}
}

func (p *Proxy) put(way chan<- parcel, b parcel) bool {
	select {
	case way <- b:
		return true
	case <-p.done:
		return false
	}
}

// deliver writes parcels when they are due.
func (p *Proxy) deliver(to net.Conn, way <-chan parcel) {
	for b := range way {
		if !p.until(b.due) {
			break
		}
		if b.bytes == nil {
			if t, ok := to.(*net.TCPConn); ok {
				_ = t.CloseWrite()
			}
			continue
		}
		if !p.write(to, b.bytes) {
			_ = to.Close() // the other direction ends, too
			break
		}
	}
	for range way { // the sender must not wait for ever
	}
}

// write writes bytes, no faster than the bandwidth allows.
func (p *Proxy) write(to net.Conn, b []byte) bool {
	for len(b) > 0 {
		n, bandwidth := len(b), p.now().Bandwidth
		if bandwidth > 0 {
			n = min(n, int(max(1, bandwidth/50)))
		}
		if _, err := to.Write(b[:n]); err != nil {
			return false
		}
		b = b[n:]
		if bandwidth > 0 && !p.until(time.Now().Add(time.Duration(n)*time.Second/time.Duration(bandwidth))) {
			return false
		}
	}
	return true
}

// until waits for a time; false where the proxy ended first.
func (p *Proxy) until(t time.Time) bool {
	wait := time.Until(t)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.done:
		return false
	}
}
