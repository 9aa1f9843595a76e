//go:build linux && !race && (amd64 || arm64)

package socket

import (
	"syscall"
	"unsafe"
)

// Read is one read(2), begun again when a signal interrupts it. Nothing to read
// is EAGAIN.
func Read(fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		if errno == 0 {
			return int(n), nil
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}

// Peek is one recv(2) that leaves what it sees where it is.
func Peek(fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
			syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
		if errno == 0 {
			return int(n), nil
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}

// writev is one write(2) or writev(2) of the parts, of which the first is not
// empty and none follows an empty one.
func writev(fd uintptr, parts *[3][]byte) (int, error) {
	var vec [3]syscall.Iovec
	count := 0
	for _, p := range parts {
		if len(p) == 0 {
			break
		}
		vec[count].Base = unsafe.SliceData(p)
		vec[count].SetLen(len(p))
		count++
	}
	for {
		var n uintptr
		var errno syscall.Errno
		if count == 1 {
			n, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(vec[0].Base)), uintptr(vec[0].Len))
		} else {
			n, _, errno = syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&vec)), uintptr(count))
		}
		if errno == 0 {
			return int(n), nil
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}
