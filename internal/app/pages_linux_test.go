package app

import (
	"os"
	"strings"
	"testing"
)

func TestReadOnlyPart(t *testing.T) {
	for line, want := range map[string]bool{
		"00400000-01360000 r-xp 00000000 fe:00 9995091                            /bin/headgate": true,
		"01360000-02b2c000 r--p 00f60000 fe:00 9995091                            /bin/headgate": true,
		"02b2c000-02c02000 rw-p 0272c000 fe:00 9995091                            /bin/headgate": false,
		"7f1e87400000-7f1e87800000 rw-p 00000000 00:00 0 ":                                       false,
		"01360000-02b2c000 r--p 00f60000 fe:00 9995091                            /lib/other":    false,
		"01360000-01360000 r--p 00f60000 fe:00 9995091                            /bin/headgate": false,
		"zz-02b2c000 r--p 00f60000 fe:00 9995091                            /bin/headgate":       false,
		"": false,
	} {
		if _, _, ok := readOnlyPart(line, "/bin/headgate"); ok != want {
			t.Errorf("%q: %v, want %v", line, ok, want)
		}
	}
}

// The process goes on, and what its executable holds is what it held.
func TestDropStartPages(t *testing.T) {
	before := strings.Repeat("x", 10) + os.Args[0]
	for range 10 {
		dropStartPages()
	}
	if after := strings.Repeat("x", 10) + os.Args[0]; after != before {
		t.Errorf("%q, want %q", after, before)
	}
}
