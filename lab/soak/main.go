// Command soak keeps a gateway under mixed load for a long time, or holds
// thousands of streams open, and fails if anything is lost, grows or stays
// behind. See package trial; make soak and make hold run it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/headgate-ai/headgate/lab/soak/trial"
)

func main() {
	o := trial.Options{Out: os.Stdout}
	flag.StringVar(&o.Binary, "binary", "bin/headgate", "the gateway")
	flag.DurationVar(&o.For, "for", 30*time.Minute, "how long the load lasts, or the streams are held")
	flag.IntVar(&o.Hold, "hold", 0, "hold so many streams instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := trial.Run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\nFAILED\n", err)
		os.Exit(1)
	}
	fmt.Println("PASSED")
}
