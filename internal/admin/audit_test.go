package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func plainAudit(t testing.TB, path string) *Audit {
	t.Helper()
	a, err := OpenAudit(AuditOptions{Path: path, Version: func() string { return "v1" }, Redact: func(s string) string { return s }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func seqOf(t testing.TB, line json.RawMessage) int64 {
	t.Helper()
	var e Entry
	if err := json.Unmarshal(line, &e); err != nil {
		t.Fatal(err)
	}
	return e.Seq
}

// Many who write at once are on record in one order, the same in memory and on
// disk, of which memory keeps the end.
func TestAuditOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a := plainAudit(t, path)
	const writers, each = 8, 150
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for k := range each {
				if err := a.Record(Entry{Operation: "test", Target: fmt.Sprint(i), New: k, Step: stepDone}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != writers*each {
		t.Fatalf("%d lines", len(lines))
	}
	next := map[string]float64{}
	for i, line := range lines {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != int64(i+1) || e.ConfigVersion != "v1" || time.Since(e.Time) > time.Minute {
			t.Fatalf("line %d: %s", i, line)
		}
		if e.New != next[e.Target] {
			t.Fatalf("line %d has the change %v of %s, want %v", i, e.New, e.Target, next[e.Target])
		}
		next[e.Target]++
	}
	kept := a.Latest(5000)
	if len(kept) != keptEntries || seqOf(t, kept[0]) != writers*each || seqOf(t, kept[keptEntries-1]) != writers*each-keptEntries+1 {
		t.Errorf("%d in memory, the first %s", len(kept), kept[0])
	}
	again := plainAudit(t, path).Latest(keptEntries)
	if len(again) != keptEntries || string(again[0]) != string(kept[0]) || string(again[keptEntries-1]) != string(kept[keptEntries-1]) {
		t.Errorf("opened anew: %d in memory, the first %s", len(again), again[0])
	}
}

// A change that cannot be put on disk is not passed over in silence.
func TestAuditFails(t *testing.T) {
	if _, err := OpenAudit(AuditOptions{Path: filepath.Join(t.TempDir(), "none", "audit.jsonl")}); err == nil || !strings.Contains(err.Error(), "server.admin.audit") {
		t.Error(err)
	}
	a := plainAudit(t, filepath.Join(t.TempDir(), "audit.jsonl"))
	if err := a.file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Record(Entry{Operation: "test"}); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// Whatever stands in the file, it is opened, and the next entry has a line of
// its own, with a number that was not in use.
func FuzzAudit(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("{\"seq\":7}\n"))
	f.Add([]byte("{\"seq\":7}\n{\"seq\":8,\"ti"))
	f.Add([]byte("\n\n{\"seq\":-1}\nnull\n[]\n\x00\n{\"seq\":9223372036854775806}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		a := plainAudit(t, path)
		before := a.Latest(keptEntries)
		if err := a.Record(Entry{Operation: "test", Step: stepDone}); err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(map[string]any{"entries": a.Latest(keptEntries)}); err != nil {
			t.Fatal(err)
		}
		is, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		added, ok := strings.CutPrefix(string(is), string(data))
		lines := strings.Split(string(is), "\n")
		last := lines[len(lines)-2]
		if !ok || strings.Count(added, "\n") > 2 || !json.Valid([]byte(last)) || !strings.Contains(last, `"operation":"test"`) {
			t.Errorf("%q became %q", data, is)
		}
		if len(before) > 0 && seqOf(t, json.RawMessage(last)) <= seqOf(t, before[0]) && a.seq > 0 {
			t.Errorf("the number %d after %s", seqOf(t, json.RawMessage(last)), before[0])
		}
	})
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"", "2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+01:00", "31.1.2026"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := ParseTime(text)
		if err != nil {
			if !at.IsZero() || !strings.Contains(err.Error(), "write a date") {
				t.Errorf("%q: %s, %v", text, at, err)
			}
			return
		}
		if text == "" {
			return
		}
		again, err := ParseTime(at.Format(time.RFC3339Nano))
		if y := at.Year(); (err != nil || !again.Equal(at)) && y >= 0 && y <= 9999 {
			t.Errorf("%q is %s, and that %s, %v", text, at, again, err)
		}
	})
}
