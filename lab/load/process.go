package load

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate-ai/headgate/lab/procfs"
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
	cpu, rss, err := procfs.CPUAndResident(pid)
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
		if cpu, rss, err := procfs.CPUAndResident(w.pid); err == nil {
			w.cpu, w.peak = cpu-w.before, max(w.peak, rss)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
