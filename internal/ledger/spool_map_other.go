//go:build !linux

package ledger

import (
	"errors"
	"os"
)

// mapFile fails: whether a map and the file always agree, and whether pages can
// be asked for, is known of Linux alone.
func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) {}

func populate([]byte) error { return errors.ErrUnsupported }

func release([]byte) {}
