//go:build unix

package journal

import (
	"os"
	"sync"
	"syscall"
)

// stderr is standard error by another descriptor. The Go runtime ends the
// process when a write to descriptor 2 itself meets a broken pipe; a log whose
// reader has gone is no reason for that.
var stderr = sync.OnceValue(func() *os.File {
	fd, err := syscall.Dup(2)
	if err != nil {
		return os.Stderr
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "stderr")
})
