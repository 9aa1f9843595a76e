//go:build !linux

package app

// dropStartPages is for Linux.
func dropStartPages() {}
