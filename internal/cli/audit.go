package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"
)

type auditCmd struct {
	Limit int  `help:"How many of the latest entries." default:"50" placeholder:"N"`
	JSON  bool `help:"Print as JSON, with what was before and after."`
	adminFlags
}

// Help is the example.
func (auditCmd) Help() string { return "Example:\n  headgate audit --limit 10 --json" }

// Validate makes wrong values wrong usage.
func (c *auditCmd) Validate() error {
	if c.Limit < 1 || c.Limit > 1000 {
		return errors.New("limit: write a number from 1 to 1000")
	}
	return c.check()
}

// Run shows the record, the latest entry first.
func (c *auditCmd) Run(ctx context.Context, env *Env) error {
	body, err := c.api(env).get(ctx, "/admin/v1/audit?limit="+strconv.Itoa(c.Limit))
	if err != nil {
		return err
	}
	if c.JSON {
		return printRaw(env.Stdout, body)
	}
	var answer struct {
		Entries []struct {
			Seq       json.Number `json:"seq"`
			Time      time.Time   `json:"time"`
			Who       string      `json:"who"`
			Operation string      `json:"operation"`
			Target    string      `json:"target"`
			Step      string      `json:"step"`
			Reason    string      `json:"reason"`
		} `json:"entries"`
	}
	if err := read(body, &answer); err != nil {
		return err
	}
	t := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NO.\tTIME\tOPERATION\tTARGET\tSTEP\tWHO\tREASON")
	for _, e := range answer.Entries {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Seq, e.Time.Format(time.RFC3339), dash(e.Operation), dash(e.Target), dash(e.Step), dash(e.Who), dash(e.Reason))
	}
	return t.Flush()
}
