// Command headgate is an AI API gateway. See README.md, or run headgate --help.
package main

import (
	"context"
	"os"

	"github.com/headgate-ai/headgate/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.OS()))
}
