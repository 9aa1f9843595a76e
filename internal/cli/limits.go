package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

type limitsCmd struct {
	List  limitsListCmd  `cmd:"" default:"withargs" help:"Show every limit and budget, and how full it is."`
	Set   limitsSetCmd   `cmd:"" help:"Put another bound in the place of a rule's, without a reload."`
	Reset limitsResetCmd `cmd:"" help:"Give a rule its configured bounds back."`
}

// Help is the example.
func (limitsCmd) Help() string { return "Example:\n  headgate limits list --top 10" }

type limitsListCmd struct {
	adminFlags
	Top  int  `help:"Show so many of the subjects that have used most." placeholder:"N"`
	JSON bool `help:"Print as JSON."`
}

// Help is the example.
func (limitsListCmd) Help() string { return "Example:\n  headgate limits list --top 10" }

// Validate makes wrong values wrong usage.
func (c *limitsListCmd) Validate() error {
	if c.Top < 0 || c.Top > 1000 {
		return errors.New("top: write a number from 1 to 1000")
	}
	return c.check()
}

// limitLine is a limit as the admin API shows it.
type limitLine struct {
	Rule      string          `json:"rule"`
	Dimension string          `json:"dimension"`
	Rate      string          `json:"rate"`
	Burst     json.Number     `json:"burst"`
	Override  json.RawMessage `json:"override"`
	Adapted   *limitAdapted   `json:"adapted"`
	Cells     int             `json:"cells"`
	FillRatio float64         `json:"fill_ratio"`
	Admitted  int64           `json:"admitted"`
	Refused   int64           `json:"refused"`
	Shadow    int64           `json:"shadow_refused"`
}

// limitAdapted is what a limit was declared as that moves, and what moves it.
type limitAdapted struct {
	Rate    string             `json:"rate"`
	Burst   json.Number        `json:"burst"`
	Profile string             `json:"profile"`
	Factors map[string]float64 `json:"factors"`
}

// String says where the limit comes from, as in "100/s, 200 × burst 1.33".
func (l *limitAdapted) String() string {
	s := l.Rate + ", " + l.Burst.String()
	if l.Profile != "" {
		s = "profile " + l.Profile + ", " + s
	}
	for _, cause := range slices.Sorted(maps.Keys(l.Factors)) {
		s += fmt.Sprintf(" × %s %.2f", cause, l.Factors[cause])
	}
	return s
}

// Run shows the limits.
func (c *limitsListCmd) Run(ctx context.Context, env *Env) error {
	path := "/admin/v1/limits"
	if c.Top > 0 {
		path += "?top=" + strconv.Itoa(c.Top)
	}
	body, err := c.api(env).get(ctx, path)
	if err != nil {
		return err
	}
	if c.JSON {
		return printRaw(env.Stdout, body)
	}
	var answer struct {
		Limits    []limitLine    `json:"limits"`
		Overrides []overrideLine `json:"overrides"`
		Top       []struct {
			Cell        string `json:"cell"`
			Limit, Used int64
			UnderWay    int `json:"under_way"`
		} `json:"top"`
	}
	if err := read(body, &answer); err != nil {
		return err
	}
	t := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tDIMENSION\tRATE\tBURST\tSET BY\tSUBJECTS\tLEFT\tADMITTED\tREFUSED\tIN SHADOW")
	for _, l := range answer.Limits {
		by := "configuration"
		if l.Override != nil {
			by = "operator"
		}
		if l.Adapted != nil {
			by += ", " + l.Adapted.String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%.0f %%\t%d\t%d\t%d\n", l.Rule, l.Dimension, dash(l.Rate), dash(l.Burst.String()), by, l.Cells, 100*l.FillRatio, l.Admitted, l.Refused, l.Shadow)
	}
	printOwn(t, answer.Overrides)
	if len(answer.Top) > 0 {
		fmt.Fprintln(t, "\nSUBJECT\tUSED\tLIMIT\tUNDER WAY")
		for _, one := range answer.Top {
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\n", dash(one.Cell), one.Used, one.Limit, one.UnderWay)
		}
	}
	return t.Flush()
}

// subjectFlag names one subject of a rule.
type subjectFlag struct {
	Subject map[string]string `help:"For this subject only, by everything that the rule is kept by (limits list --top shows it), such as key=web,tenant=acme." mapsep:"," placeholder:"NAME=VALUE,…" json:"subject"`
}

// named is a rule, and the subject if there is one.
func (f *subjectFlag) named(rule string) string {
	for _, dim := range slices.Sorted(maps.Keys(f.Subject)) {
		rule += " " + dim + "=" + f.Subject[dim]
	}
	return rule
}

// overrideLine is a bound that an operator has set.
type overrideLine struct {
	limitLine
	subjectFlag
	Until time.Time `json:"until"`
}

// printOwn prints the bounds that single subjects have for themselves.
func printOwn(w io.Writer, all []overrideLine) {
	all = slices.DeleteFunc(all, func(o overrideLine) bool { return o.Subject == nil })
	if len(all) > 0 {
		fmt.Fprintln(w, "\nSET FOR\tDIMENSION\tRATE\tBURST\tUNTIL")
	}
	for _, o := range all {
		until := "it is reset"
		if !o.Until.IsZero() {
			until = o.Until.Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", o.named(o.Rule), o.Dimension, dash(o.Rate), dash(o.Burst.String()), until)
	}
}

type limitsSetCmd struct {
	Rule      string `arg:"" help:"The rule's name."`
	Rate      string `arg:"" optional:"" help:"The rate, such as 100/s or 600/min; none for the dimension concurrent."`
	Dimension string `help:"Which of the rule's limits: requests, tokens, input_tokens, output_tokens or concurrent." placeholder:"NAME"`
	subjectFlag
	Burst  int64  `help:"How many can come at once; default is the rate's number." placeholder:"N"`
	TTL    string `name:"ttl" help:"How long it holds, such as 15m or 2d; without it until it is reset or the gateway ends." placeholder:"TIME"`
	Reason string `help:"Why; it goes on record." required:"" placeholder:"TEXT"`
	JSON   bool   `help:"Print as JSON."`
	adminFlags
	confirmFlags
}

// Help is the example.
func (limitsSetCmd) Help() string {
	return `The change takes effect at once, outlasts reloads, and grants no burst: what was used stays used.

Example:
  headgate limits set per-key 200/s --burst 400 --ttl 2h --reason "launch day"
  headgate limits set per-key 500/s --subject key=web,tenant=acme --ttl 2h --reason "acme's launch"`
}

// Validate makes wrong values wrong usage.
func (c *limitsSetCmd) Validate() error {
	var r setting.Rate
	if c.Rate != "" {
		if err := r.UnmarshalText([]byte(c.Rate)); err != nil {
			return fmt.Errorf("rate: %w", err)
		}
	}
	if c.TTL != "" {
		if _, err := parseLength(c.TTL); err != nil {
			return fmt.Errorf("ttl: %w", err)
		}
	}
	return c.check()
}

// Run sets a limit.
func (c *limitsSetCmd) Run(ctx context.Context, env *Env) error {
	want := map[string]any{"reason": c.Reason}
	if c.Rate != "" {
		want["rate"] = c.Rate
	}
	if c.Dimension != "" {
		want["dimension"] = c.Dimension
	}
	if c.Subject != nil {
		want["subject"] = c.Subject
	}
	if c.Burst != 0 {
		want["burst"] = c.Burst
	}
	if c.TTL != "" {
		d, err := parseLength(c.TTL)
		if err != nil {
			return err
		}
		want["ttl"] = d.String()
	}
	body, err := c.api(env).change(ctx, env, &c.confirmFlags, fmt.Sprintf("Change the limit %s of the running gateway?", c.named(c.Rule)), http.MethodPut, "/admin/v1/limits/"+url.PathEscape(c.Rule), want)
	if err != nil {
		return err
	}
	if c.JSON {
		return printRaw(env.Stdout, body)
	}
	type bound struct {
		Dimension string      `json:"dimension"`
		Rate      string      `json:"rate"`
		Burst     json.Number `json:"burst"`
	}
	var answer struct{ Old, New bound }
	if err := read(body, &answer); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%s/%s: %s, burst %s, was %s, burst %s\n", c.named(c.Rule), answer.New.Dimension,
		dash(answer.New.Rate), dash(answer.New.Burst.String()), dash(answer.Old.Rate), dash(answer.Old.Burst.String()))
	return err
}

type limitsResetCmd struct {
	Rule      string `arg:"" help:"The rule's name."`
	Dimension string `help:"Which of the rule's limits; all without it." placeholder:"NAME"`
	subjectFlag
	Reason string `help:"Why; it goes on record." placeholder:"TEXT"`
	JSON   bool   `help:"Print as JSON."`
	adminFlags
	confirmFlags
}

// Help is the example.
func (limitsResetCmd) Help() string {
	return `Without a subject what was set for single ones ends, too.

Example:
  headgate limits reset per-key --yes
  headgate limits reset per-key --subject key=web,tenant=acme --yes`
}

// Validate makes wrong values wrong usage.
func (c *limitsResetCmd) Validate() error { return c.check() }

// Run gives a rule its bounds back.
func (c *limitsResetCmd) Run(ctx context.Context, env *Env) error {
	q := url.Values{}
	if c.Dimension != "" {
		q.Set("dimension", c.Dimension)
	}
	if c.Reason != "" {
		q.Set("reason", c.Reason)
	}
	for dim, value := range c.Subject {
		q.Add("subject", dim+"="+value)
	}
	path := "/admin/v1/limits/" + url.PathEscape(c.Rule)
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	body, err := c.api(env).change(ctx, env, &c.confirmFlags, fmt.Sprintf("Give the limit %s its configured bounds back?", c.named(c.Rule)), http.MethodDelete, path, nil)
	if err != nil {
		return err
	}
	if c.JSON {
		return printRaw(env.Stdout, body)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s is as the configuration says\n", c.named(c.Rule))
	return err
}
