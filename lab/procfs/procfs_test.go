package procfs

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	line := "42 (a) b (c) S 7 42 42 0 -1 4194304 98 0 0 0 150 25 30 5 20 0 1 0 570426 3133440 380 184467"
	s, err := parseStat([]byte(line))
	if want := (stat{42, 7, 1750 * time.Millisecond, 350 * time.Millisecond, 380}); err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "42", "42 (a", "42 (a) S 1 2", "x (a) S 7 42 42 0 -1 4194304 98 0 0 0 150 25 30 5 20", "42 (a) S 7 42 42 0 -1 4194304 98 0 0 0 x 25 30 5 20 0 1 0 570426 3133440 380", "42 (a) S 7 42 42 0 -1 4194304 98 0 0 0 150 25 30 5 20 0 1 0 570426 3133440 x"} {
		if s, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func TestParseBusy(t *testing.T) {
	got, err := parseBusy([]byte("cpu  100 20 30 4000 500 6 7 80 90 10\ncpu0 1 1 1 1\n"))
	if err != nil || got != 1630*time.Millisecond {
		t.Error(got, err)
	}
	for _, bad := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6 7", "cpu a 2 3 4 5 6 7"} {
		if _, err := parseBusy([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestParseMemory(t *testing.T) {
	m, err := parseRollup([]byte("55dba71e6000-7ffde867e000 ---p 00000000 00:00 0    [rollup]\nRss:   1736 kB\nPss:  276 kB\nAnonymous:   112 kB\nAnonHugePages:  0 kB\n"))
	if want := (Memory{1736 << 10, 112 << 10}); err != nil || m != want {
		t.Error(m, err)
	}
	if _, err := parseRollup([]byte("Rss: 1 kB\n")); err == nil {
		t.Error("a rollup without Anonymous is accepted")
	}
	m, err = parseStatm([]byte("5000 300 100 1 0 200 0\n"), 4096)
	if want := (Memory{300 * 4096, 200 * 4096}); err != nil || m != want {
		t.Error(m, err)
	}
	for _, bad := range []string{"", "1 2", "1 a 2"} {
		if _, err := parseStatm([]byte(bad), 4096); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// This process and a child of it are measured as they are.
func TestOwnProcess(t *testing.T) {
	child := exec.Command("sleep", "30")
	if err := child.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	pid := os.Getpid()
	before, err := CPU(pid)
	if err != nil {
		t.Skip("no /proc here: ", err)
	}
	busyBefore, _ := Busy()
	for until := time.Now().Add(200 * time.Millisecond); time.Now().Before(until); {
	}
	own, _ := Own(pid)
	after, _ := CPU(pid)
	busyAfter, err := Busy()
	// Other work may keep this process from its processor.
	if used := after - before; used < 20*time.Millisecond || used > 2*time.Second || own > after {
		t.Errorf("200 ms of spinning count as %v, of %v", used, own)
	}
	if err != nil || busyAfter-busyBefore < 20*time.Millisecond {
		t.Errorf("the machine was busy for %v, %v", busyAfter-busyBefore, err)
	}
	with, err := MemoryOf(pid)
	alone, _ := memory(pid)
	if err != nil || with.Resident <= alone.Resident/2 || alone.Private <= 0 || alone.Private > alone.Resident {
		t.Errorf("%+v, alone %+v, %v", with, alone, err)
	}
	// The two are taken one after the other, and memory comes and goes.
	if cpu, resident, err := CPUAndResident(pid); err != nil || cpu < after || resident < with.Resident/2 || resident > with.Resident*2 {
		t.Errorf("%v and %d bytes, by the pages %+v, %v", cpu, resident, with, err)
	}
	if LoadAverage() == "" {
		t.Error("no load average")
	}
	if _, kernel := Machine(); kernel == "" {
		t.Error("no kernel")
	}
	if _, err := CPU(1 << 30); err == nil {
		t.Error("a process that does not exist is measured")
	}
}
