package ledger

import (
	"os/signal"
	"strconv"
	"syscall"
	"testing"
)

// A disk that is full in the middle of a record refuses the record, and takes
// others once there is room: nothing half stands between them. It may be full
// when a segment begins, or when room for more records is taken ahead.
func TestFullDisk(t *testing.T) {
	for _, room := range []uint64{5001, aheadSteps*firstStep + 5001} {
		t.Run(strconv.FormatUint(room, 10), func(t *testing.T) { testFullDisk(t, room) })
	}
}

func testFullDisk(t *testing.T, room uint64) {
	l, s := &logged{}, &flaky{Memory: NewMemory(0), down: true}
	r := open(t, t.TempDir(), s, l)
	// A limit on the size of files stands in for the disk's.
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Skip(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: room, Max: was.Max}); err != nil {
		t.Skip(err)
	}
	taken := 0
	var err error
	for err == nil {
		e := entry(taken)
		if err = r.Append(&e); err == nil {
			taken++
		}
	}
	e := entry(taken)
	if r.Append(&e) == nil {
		t.Error("the full disk took another")
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		mustAppend(t, r, entry(taken+i))
	}
	s.set(false)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(ids(t, s.Memory)); n != taken+5 || uint64(taken) < room/200 || l.count("damaged") != 0 {
		t.Errorf("%d entries, %d were taken; log %q", n, taken+5, l.b.String())
	}
}
