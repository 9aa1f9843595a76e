//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package h1

import (
	"os"
	"syscall"
)

// canPeek: here a connection can't be asked without waiting, so pooled ones
// are used unseen, and the rule for retries alone guards against dead ones.
const canPeek = false

func (c *conn) quiet() bool         { return true }
func (c *conn) peekFD(uintptr) bool { return true }
func (c *conn) recvFD(uintptr) bool { return true }
func (c *conn) receive() received   { return received{err: os.ErrInvalid} }

func readNow(syscall.RawConn, []byte) (int, error) { return 0, errNothing }
