// Command bench measures the gateway against a bare Go reverse proxy: make
// bench. Its parts run as processes of their own, which are this command again.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/headgate-ai/headgate/lab/bench/compare"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := compare.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
