//go:build !linux

package compare

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
