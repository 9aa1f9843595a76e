package compare

import "syscall"

// dieWithParent keeps no process behind when this one is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
