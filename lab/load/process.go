package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process is what a watched process and its children used.
type Process struct {
	PID int `json:"pid"`
	// CPU is the time on a processor in seconds, CPUPerRequest the part of one
	// request in milliseconds.
	CPU           float64 `json:"cpu_s"`
	CPUPerRequest float64 `json:"cpu_per_request_ms"`
	// PeakRSS is the most memory in use at once, of all of them together, in
	// bytes; it is looked at ten times a second.
	PeakRSS int64 `json:"peak_rss_bytes"`
}

// processWatch measures a process tree by /proc.
type processWatch struct {
	pid    int
	before time.Duration
	cpu    time.Duration
	peak   int64
}

// watchProcess begins to watch; a watch of process 0 sees nothing.
func watchProcess(pid int) (*processWatch, error) {
	w := &processWatch{pid: pid}
	if pid == 0 {
		return w, nil
	}
	cpu, rss, err := usage(pid)
	if err != nil {
		return nil, fmt.Errorf("pid: cannot measure process %d: %w", pid, err)
	}
	w.before, w.peak = cpu, rss
	return w, nil
}

// run looks until ctx ends, and once more then.
func (w *processWatch) run(ctx context.Context) {
	if w.pid == 0 {
		return
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		// A process that has ended keeps its last figures.
		if cpu, rss, err := usage(w.pid); err == nil {
			w.cpu, w.peak = cpu-w.before, max(w.peak, rss)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// clockTick is the unit of times in /proc/PID/stat: USER_HZ, which is 100 on
// every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// usage sums CPU time and resident memory of a process and its descendants.
// Each counts its own time and that of children it has waited for, so that a
// child's time is counted once, whether it still runs or not.
func usage(pid int) (cpu time.Duration, rss int64, err error) {
	all, err := descendants(pid)
	if err != nil {
		return 0, 0, err
	}
	for _, p := range all {
		for _, ticks := range p.ticks {
			cpu += time.Duration(ticks) * clockTick
		}
		rss += p.pages * int64(os.Getpagesize())
	}
	return cpu, rss, nil
}

// procStat is what is needed of /proc/PID/stat.
type procStat struct {
	pid, parent int
	ticks       [4]int64 // user and system, then those of children waited for
	pages       int64
}

// descendants are a process and all below it.
func descendants(pid int) ([]procStat, error) {
	root, err := readStat(pid)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]procStat{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readStat(id); err == nil { // else it has just ended
			children[p.parent] = append(children[p.parent], p)
		}
	}
	all := []procStat{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].pid]...)
	}
	return all, nil
}

// readStat reads /proc/PID/stat. Its second field, the command, may hold
// anything, so counting begins behind its closing parenthesis.
func readStat(pid int) (p procStat, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	const parent, user, resident = 1, 11, 21
	if len(f) <= resident {
		return p, errors.New("/proc/PID/stat is not what it is on Linux")
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(f[i], 10, 64); return n }
	p.pid, p.parent, p.pages = pid, int(number(parent)), number(resident)
	for i := range p.ticks {
		p.ticks[i] = number(user + i)
	}
	return p, nil
}
