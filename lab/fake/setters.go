package fake

import (
	"fmt"
	"strconv"

	"github.com/headgate-ai/headgate/internal/setting"
)

// This file holds the overrides that do more than set one field.

func setSeed(c *Config, v string) error {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a seed; write a whole number from 0", v)
	}
	c.Seed = n
	return nil
}

func setStatus(c *Config, v string) error {
	return status(&c.Status, v)
}

func setErrorStatus(c *Config, v string) error {
	return status(&c.ErrorStatus, v)
}

func status(field *int, v string) error {
	n, err := strconv.Atoi(v)
	if w := wrongStatus(n, false); err != nil || w != "" {
		return fmt.Errorf("%q is not the status of a failure; write one from 400 to 599", v)
	}
	*field = n
	return nil
}

// setRetryAfter takes plain seconds too, as the HTTP header does.
func setRetryAfter(c *Config, v string) error {
	if _, err := strconv.ParseFloat(v, 64); err == nil {
		v += "s"
	}
	return c.RetryAfter.UnmarshalText([]byte(v))
}

func setFault(c *Config, v string) error {
	if v == "none" {
		v = ""
	}
	if w := wrongFault(v); w != "" {
		return fmt.Errorf("%s, none", w)
	}
	c.Fault = v
	return nil
}

func setResetAfter(c *Config, v string) (err error) {
	c.Fault = faultReset
	c.FaultAfter, err = whole(v)
	return err
}

// setStallAfter leaves another fault in place, so that both can happen.
func setStallAfter(c *Config, v string) error {
	n, err := whole(v)
	if err == nil && n == 0 {
		c.Fault, c.FaultAfter = faultStall, 0
	}
	c.StallAfter = n
	return err
}

func setEventSize(c *Config, v string) error {
	var n setting.Size
	if err := n.UnmarshalText([]byte(v)); err != nil {
		return err
	}
	if n > 1<<30 {
		return fmt.Errorf("%q is too large; write at most 1GiB", v)
	}
	c.Fault, c.EventSize = faultGiant, n
	return nil
}
