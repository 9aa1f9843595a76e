//go:build !unix

package socket

import "syscall"

// Nothing here is used where a descriptor cannot be asked; see the callers.

// Read is not to be had on this system.
func Read(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

// Peek is not to be had on this system.
func Peek(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

func writev(uintptr, *[3][]byte) (int, error) { return 0, syscall.EINVAL }
