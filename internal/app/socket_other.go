//go:build !linux

package app

import (
	"net"
	"time"
)

// listen opens the clients' listener.
func listen(address string, _ time.Duration) (net.Listener, error) {
	return net.Listen("tcp", address)
}
