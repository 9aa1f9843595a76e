//go:build !unix

package journal

import "os"

func stderr() *os.File { return os.Stderr }
