// Command h2spec is the bare net/http server with which scripts/h2spec.sh
// compares the gateway.
package main

import (
	"log"
	"os"

	"github.com/headgate-ai/headgate/lab/h2spec/bare"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: h2spec CERTIFICATE KEY")
	}
	log.Fatal(bare.Serve(os.Stdout, os.Args[1], os.Args[2]))
}
