package app

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// dropStartPages gives back the pages of the executable itself that only the
// start has needed: the initialisation of every package that is linked, which
// touches a little everywhere. They are clean copies of the file; one that is
// needed again is mapped again. It is the file's counterpart of
// debug.FreeOSMemory, and like it done once. Failures cost nothing but memory.
func dropStartPages() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for s := bufio.NewScanner(maps); s.Scan(); {
		from, to, ok := readOnlyPart(s.Text(), self)
		if !ok {
			continue
		}
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
	}
}

// readOnlyPart reads a line of /proc/self/maps (proc(5)), and is ok if it is a
// part of the executable that nobody can have written to.
func readOnlyPart(line, self string) (from, to uintptr, ok bool) {
	f := strings.Fields(line)
	if len(f) != 6 || f[5] != self || f[1] != "r-xp" && f[1] != "r--p" {
		return 0, 0, false
	}
	low, high, _ := strings.Cut(f[0], "-")
	const bits = 8 * int(unsafe.Sizeof(from))
	a, err1 := strconv.ParseUint(low, 16, bits)
	b, err2 := strconv.ParseUint(high, 16, bits)
	return uintptr(a), uintptr(b), err1 == nil && err2 == nil && a < b
}
