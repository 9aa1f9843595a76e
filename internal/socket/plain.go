//go:build unix && (!linux || race || !(amd64 || arm64))

package socket

import "syscall"

// Read is one read(2), begun again when a signal interrupts it. Nothing to read
// is EAGAIN.
func Read(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		if err != syscall.EINTR { //nolint:errorlint // an Errno as it is
			return max(n, 0), err
		}
	}
}

// Peek is one recv(2) that leaves what it sees where it is.
func Peek(fd uintptr, p []byte) (int, error) {
	for {
		n, _, err := syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR { //nolint:errorlint // an Errno as it is
			return max(n, 0), err
		}
	}
}

// writev writes the first part; the others follow with the next calls.
func writev(fd uintptr, parts *[3][]byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), parts[0])
		if err != syscall.EINTR { //nolint:errorlint // an Errno as it is
			return max(n, 0), err
		}
	}
}
