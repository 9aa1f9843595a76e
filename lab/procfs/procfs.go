// Package procfs reads from /proc what processes and the whole machine use.
//
// Who should import this: lab/bench/compare, lab/load, lab/soak/trial.
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc: USER_HZ, 100 on every Linux that Go runs
// on.
const tick = 10 * time.Millisecond

var errForm = errors.New("not the form that Linux writes")

// stat is what is needed of /proc/PID/stat.
type stat struct {
	pid, parent int
	// own is the time of the process, waited that of children it has waited for.
	own, waited time.Duration
	// pages are those in memory.
	pages int64
}

// parseStat reads /proc/PID/stat. The command in its second field may hold
// blanks and parentheses, so counting begins behind the last one.
func parseStat(b []byte) (s stat, err error) {
	head, rest, ok := cutLast(b, ')')
	name, _, named := bytes.Cut(head, []byte(" "))
	f := strings.Fields(string(rest))
	const parent, user, waitedSystem, resident = 1, 11, 14, 21
	if !ok || !named || len(f) <= resident {
		return s, errForm
	}
	if s.pid, err = strconv.Atoi(string(name)); err != nil {
		return s, errForm
	}
	if s.parent, err = strconv.Atoi(f[parent]); err != nil {
		return s, errForm
	}
	for i := user; i <= waitedSystem; i++ {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return s, errForm
		}
		if i < user+2 {
			s.own += time.Duration(n) * tick
		} else {
			s.waited += time.Duration(n) * tick
		}
	}
	if s.pages, err = strconv.ParseInt(f[resident], 10, 64); err != nil {
		return s, errForm
	}
	return s, nil
}

func cutLast(b []byte, c byte) (before, after []byte, ok bool) {
	i := bytes.LastIndexByte(b, c)
	if i < 0 {
		return nil, nil, false
	}
	return b[:i], b[i+1:], true
}

// parseBusy sums what /proc/stat says of time that was not idle. Time stolen by
// other machines is not counted: it is nobody's work here.
func parseBusy(b []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	f := strings.Fields(string(line))
	const idle, wait, softirq = 4, 5, 7
	if len(f) <= softirq || f[0] != "cpu" {
		return 0, errForm
	}
	var busy time.Duration
	for i := 1; i <= softirq; i++ {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0, errForm
		}
		if i != idle && i != wait {
			busy += time.Duration(n) * tick
		}
	}
	return busy, nil
}

// Memory is what a process holds, in bytes.
type Memory struct {
	Resident int64
	// Private is memory that belongs to no file: heap and stacks.
	Private int64
}

// parseRollup reads /proc/PID/smaps_rollup.
func parseRollup(b []byte) (m Memory, err error) {
	found := 0
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "kB" || f[0] != "Rss:" && f[0] != "Anonymous:" {
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return m, errForm
		}
		found++
		if f[0] == "Rss:" {
			m.Resident = n << 10
		} else {
			m.Private = n << 10
		}
	}
	if found != 2 {
		return m, errForm
	}
	return m, nil
}

// parseStatm reads /proc/PID/statm, where kernels without smaps_rollup tell.
func parseStatm(b []byte, page int64) (m Memory, err error) {
	f := strings.Fields(string(b))
	if len(f) < 3 {
		return m, errForm
	}
	resident, err1 := strconv.ParseInt(f[1], 10, 64)
	shared, err2 := strconv.ParseInt(f[2], 10, 64)
	if err1 != nil || err2 != nil {
		return m, errForm
	}
	return Memory{resident * page, (resident - shared) * page}, nil
}

// CPU is the time that a process and all below it have used. Each counts
// children that it has waited for, so a child's time counts once, whether the
// child still runs or not.
func CPU(pid int) (cpu time.Duration, err error) {
	cpu, _, err = CPUAndResident(pid)
	return cpu, err
}

// CPUAndResident is the same time, and the resident memory of all of them in
// bytes. It costs less than MemoryOf, which has the kernel look at every page.
func CPUAndResident(pid int) (cpu time.Duration, resident int64, err error) {
	all, err := tree(pid)
	for _, s := range all {
		cpu += s.own + s.waited
		resident += s.pages * int64(os.Getpagesize())
	}
	return cpu, resident, err
}

// MemoryOf is the memory of a process and all below it.
func MemoryOf(pid int) (sum Memory, err error) {
	all, err := tree(pid)
	if err != nil {
		return sum, err
	}
	for _, s := range all {
		m, err := memory(s.pid)
		if err != nil {
			return sum, err
		}
		sum.Resident += m.Resident
		sum.Private += m.Private
	}
	return sum, nil
}

func memory(pid int) (Memory, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	if b, err := os.ReadFile(dir + "smaps_rollup"); err == nil {
		return parseRollup(b)
	}
	b, err := os.ReadFile(dir + "statm")
	if err != nil {
		return Memory{}, err
	}
	return parseStatm(b, int64(os.Getpagesize()))
}

// tree is a process and all below it.
func tree(pid int) ([]stat, error) {
	root, err := readStat(pid)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	below := map[int][]stat{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(id); err == nil { // else it has just ended
			below[s.parent] = append(below[s.parent], s)
		}
	}
	all := []stat{root}
	for i := 0; i < len(all); i++ {
		all = append(all, below[all[i].pid]...)
	}
	return all, nil
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// Own is the time that one process has used, its children left out.
func Own(pid int) (time.Duration, error) {
	s, err := readStat(pid)
	return s.own, err
}

// Busy is the time that all processors together were not idle.
func Busy() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseBusy(b)
}

// LoadAverage is the machine's load over a minute, "" where it is not told.
func LoadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// Machine says what this machine is: its processor and its kernel.
func Machine() (processor, kernel string) {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			processor = strings.TrimSpace(value)
			break
		}
	}
	b, _ = os.ReadFile("/proc/sys/kernel/osrelease")
	return processor, strings.TrimSpace(string(b))
}
