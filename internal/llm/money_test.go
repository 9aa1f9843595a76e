package llm

import (
	"math"
	"testing"
)

func TestMoney(t *testing.T) {
	for _, c := range []struct {
		text string
		want Money
	}{
		{"0", 0}, {"1", USD}, {"500", 500 * USD}, {"0.25", USD / 4}, {"-0.000000001", -NanoUSD},
		{"12.5", 12*USD + USD/2}, {"9223372036.854775807", math.MaxInt64},
	} {
		got, err := ParseUSD(c.text)
		if err != nil || got != c.want {
			t.Errorf("ParseUSD(%q) = %d, %v; want %d", c.text, got, err, c.want)
		}
		if s := c.want.String(); s != c.text+" USD" {
			t.Errorf("%d is %q, want %q", c.want, s, c.text+" USD")
		}
	}
	if got := Money(math.MinInt64).String(); got != "-9223372036.854775808 USD" {
		t.Errorf("the least amount is %q", got)
	}
	for _, text := range []string{"", "-", ".", ".5", "5.", "1e3", "0x1", "1.0000000001", "9223372036.854775808", "1,5", " 1", "+1", "--1", "1.2.3"} {
		if got, err := ParseUSD(text); err == nil {
			t.Errorf("ParseUSD(%q) = %d, want an error", text, got)
		}
	}
}

func FuzzParseUSD(f *testing.F) {
	f.Add("12.5")
	f.Add("-0.000000001")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseUSD(text)
		if err != nil {
			return
		}
		again, err := ParseUSD(string(m.append(nil)))
		if err != nil || again != m {
			t.Fatalf("%q is %d, and back %d, %v", text, m, again, err)
		}
	})
}
