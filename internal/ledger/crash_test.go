package ledger_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/store/sqlite"
	"github.com/headgate-ai/headgate/lab/race"
)

// childEnv, where set, makes the test's binary append entries until it is
// killed: the folder, and the name of the run.
const childEnv = "HEADGATE_TEST_LEDGER_CHILD"

func TestMain(m *testing.M) {
	if dir, run, ok := strings.Cut(os.Getenv(childEnv), "|"); ok {
		fmt.Fprintln(os.Stderr, "child:", child(dir, run))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const (
	childWriters  = 4
	childSegments = 8 << 10 // bytes, so that segments end and go all the time
)

// child appends from several goroutines, and writes each ID to standard output
// once Append has returned. Meanwhile entries are brought over and folded without
// a pause, so that kills come then, too.
func child(dir, run string) error {
	r, err := openIn(dir, os.Stderr)
	if err != nil {
		return err
	}
	ledger.SetSegmentSize(r, childSegments)
	failed := make(chan error)
	for w := range childWriters {
		go func() {
			for i := 0; ; i++ {
				e := entryFor(fmt.Sprintf("%s-%d-%d", run, w, i))
				if err := r.Append(&e); err != nil {
					failed <- err
					return
				}
				if _, err := os.Stdout.WriteString(e.ID + "\n"); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	go func() {
		for ctx := context.Background(); ; {
			if err := errors.Join(r.Flush(ctx), r.Prune(ctx, 0)); err != nil {
				failed <- err
				return
			}
		}
	}()
	return <-failed
}

func openIn(dir string, log *os.File) (*ledger.Room, error) {
	c := ledger.Default()
	c.Kind = ledger.KindSQLite
	c.Path = filepath.Join(dir, "ledger.db")
	s, err := sqlite.Open(c.Path)
	if err != nil {
		return nil, err
	}
	return ledger.Open(context.Background(), ledger.Options{Config: c, Store: s, Log: slog.New(slog.NewTextHandler(log, nil))})
}

// entryFor makes the entry that an ID stands for: who knows the ID knows what it
// costs.
func entryFor(id string) ledger.Entry {
	h := fnv.New64a()
	h.Write([]byte(id))
	n := int64(h.Sum64() >> 1)
	return ledger.Entry{
		ID: id, At: time.Unix(1_700_000_000, n%1e9), Model: "m", Tenant: "t",
		Usage: llm.Usage{Input: n % 5000, Output: n % 700}, Cost: llm.Money(n % 1e7), Priced: true,
		Charges: []llm.Charge{{Scope: fmt.Sprint("s", n%3), Period: n % 2 * 60, Amount: n % 9999}},
	}
}

// Processes are killed at any moment, over and over, on the same spool and the
// same file. Whatever Append confirmed is there once, and nothing is counted or
// charged twice.
func TestKill(t *testing.T) {
	kills := 200
	if testing.Short() || race.Enabled {
		kills = 25
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(rand.Uint64(), 1))
	confirmed := map[string]bool{}
	for run := range kills {
		runChild(t, r, dir, fmt.Sprintf("%x", run), confirmed)
	}
	check(t, dir, confirmed, kills*childWriters)
}

// runChild starts a child, kills it, and collects what it confirmed. Half of
// the kills come while it starts and reads what the one before left behind.
func runChild(t *testing.T, r *rand.Rand, dir, run string, confirmed map[string]bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir+"|"+run)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = cmd.Process.Kill() }
	if r.IntN(2) == 0 {
		time.AfterFunc(time.Duration(r.IntN(35_000))*time.Microsecond, kill)
		kill = func() {}
	}
	for lines, first := bufio.NewScanner(out), true; lines.Scan(); first = false {
		confirmed[lines.Text()] = true
		if first {
			time.AfterFunc(time.Duration(r.IntN(4_000))*time.Microsecond, kill)
		}
	}
	_ = cmd.Wait() // killed
	if s := log.String(); strings.Contains(s, "level=ERROR") || strings.Contains(s, "child:") {
		t.Fatalf("run %s: %s", run, s)
	}
}

// check compares the ledger with what was confirmed. At most so many entries
// may be there that were not: those whose Append was on its way.
func check(t *testing.T, dir string, confirmed map[string]bool, most int) {
	t.Helper()
	room, err := openIn(dir, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	var want ledger.Totals
	seen := map[string]bool{}
	used := map[ledger.Balance]int64{}
	unconfirmed := 0
	if err := room.Each(t.Context(), ledger.Query{}, func(e ledger.Entry) error {
		if seen[e.ID] {
			t.Errorf("%s is there twice", e.ID)
		}
		seen[e.ID] = true
		if !confirmed[e.ID] {
			unconfirmed++
		}
		is := entryFor(e.ID)
		want.Add(&is)
		for _, c := range is.Charges {
			used[ledger.Balance{Scope: c.Scope, Period: c.Period}] += c.Amount
		}
		if e.Cost != is.Cost || e.Usage != is.Usage {
			t.Errorf("%s is %+v, want %+v", e.ID, e, is)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for id := range confirmed {
		if !seen[id] {
			lost++
		}
	}
	if lost > 0 || unconfirmed > most || len(confirmed) < most {
		t.Errorf("%d of %d confirmed entries are lost; %d are there that were not confirmed, at most %d can be", lost, len(confirmed), unconfirmed, most)
	}
	got, err := room.Sum(t.Context(), ledger.Query{})
	if err != nil || got != want {
		t.Errorf("the sum is %+v (%v), want %+v", got, err, want)
	}
	balances, err := room.Balances(t.Context(), 0)
	if err != nil || len(balances) != len(used) {
		t.Errorf("%d balances (%v), want %d", len(balances), err, len(used))
	}
	for _, b := range balances {
		if want := used[ledger.Balance{Scope: b.Scope, Period: b.Period}]; b.Used != want {
			t.Errorf("balance %+v, want %d", b, want)
		}
	}
	if err := room.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "ledger.db.spool", "*.seg*"))
	if err != nil || len(left) > 0 {
		t.Errorf("segments left behind: %v", left)
	}
	t.Logf("%d entries confirmed, %d on their way when killed", len(confirmed), unconfirmed)
}
