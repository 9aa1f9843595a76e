package ledger

import (
	"os"
	"syscall"
)

// mapFile maps the file's first bytes, whether they are there yet or not.
func mapFile(f *os.File, size int64) ([]byte, error) {
	return syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// unmapFile cannot fail for a map that mapFile made.
func unmapFile(b []byte) { _ = syscall.Munmap(b) }

// populateWrite is MADV_POPULATE_WRITE of Linux 5.14, which package syscall lacks.
const populateWrite = 23

// populate brings whole pages of a map into memory, and makes sure that they can
// be changed. Before Linux 5.14 it fails.
func populate(b []byte) error { return syscall.Madvise(b, populateWrite) }

// release takes whole pages out of the process. The page cache keeps them with
// what is written there. It is advice: to fail costs memory and nothing else.
func release(b []byte) { _ = syscall.Madvise(b, syscall.MADV_DONTNEED) }
