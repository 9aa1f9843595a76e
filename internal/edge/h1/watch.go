//go:build linux

package h1

import (
	"errors"
	"os"
	"syscall"
)

// watch notices clients that leave while their request is being answered,
// without reading from them: an epoll set of its own that asks for
// EPOLLRDHUP only, so that arriving bytes do not wake it. The set's own
// descriptor lies in Go's poller, so that its goroutine parks and holds no
// thread. A connection costs one epoll_ctl, a request nothing.
//
// An event carries the connection's generation, never its descriptor: the
// system may have given that to someone else before the event is looked at.
type watch struct {
	file *os.File
	raw  syscall.RawConn
	left func(id uint64)
}

// interest is edge-triggered: a client leaves once.
const interest = syscall.EPOLLRDHUP | syscall.EPOLLET&0xffffffff

func newWatch(left func(id uint64)) (*watch, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// Only a descriptor that says it does not block is taken into Go's poller.
	if err = syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	w := &watch{file: os.NewFile(uintptr(fd), "hang-up watch"), left: left}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		_ = w.file.Close()
		return nil, err
	}
	return w, nil
}

// run passes the events on until close.
func (w *watch) run() {
	var events [64]syscall.EpollEvent
	for {
		n := 0
		err := w.raw.Read(func(fd uintptr) bool {
			// It must find nothing before it waits: the poller tells of a change
			// once only.
			n = poll(int(fd), events[:])
			return n > 0
		})
		if err != nil {
			return
		}
		for i := range events[:n] {
			w.left(eventID(&events[i]))
		}
	}
}

func poll(fd int, events []syscall.EpollEvent) int {
	for {
		n, err := syscall.EpollWait(fd, events, 0)
		if !errors.Is(err, syscall.EINTR) {
			return n
		}
	}
}

// add begins to watch a connection; one that has left already is told of, too.
func (w *watch) add(raw syscall.RawConn, id uint64) error {
	ev := event(id)
	var err error
	cerr := w.control(func(set int) error {
		return raw.Control(func(fd uintptr) {
			err = syscall.EpollCtl(set, syscall.EPOLL_CTL_ADD, int(fd), &ev)
		})
	})
	if cerr != nil {
		return cerr
	}
	return os.NewSyscallError("epoll_ctl", err)
}

// remove ends it. The connection must still be open.
func (w *watch) remove(raw syscall.RawConn) {
	_ = w.control(func(set int) error {
		return raw.Control(func(fd uintptr) {
			_ = syscall.EpollCtl(set, syscall.EPOLL_CTL_DEL, int(fd), nil)
		})
	})
}

// control holds the set's descriptor while f uses it.
func (w *watch) control(f func(set int) error) (err error) {
	cerr := w.raw.Control(func(set uintptr) { err = f(int(set)) })
	if cerr != nil {
		return cerr
	}
	return err
}

func (w *watch) close() { _ = w.file.Close() }

// event and eventID put the generation into the 64 bits that the system gives
// back with an event; package syscall calls their halves Fd and Pad.
func event(id uint64) syscall.EpollEvent {
	return syscall.EpollEvent{Events: interest, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
}

func eventID(e *syscall.EpollEvent) uint64 {
	return uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
}
