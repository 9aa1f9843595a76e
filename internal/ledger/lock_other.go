//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package ledger

import "os"

// lockFile does nothing where there is no flock. To give each process a spool of
// its own is then up to the operator.
func lockFile(*os.File) error { return nil }
