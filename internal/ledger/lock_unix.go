//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package ledger

import (
	"os"
	"syscall"
)

// lockFile takes the file for this process. The system gives it back when the
// process ends, however it does.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
