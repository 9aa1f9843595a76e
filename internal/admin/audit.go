package admin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// Entry is one line of the record of operators' changes.
type Entry struct {
	// Seq counts the entries, in their order. The record gives it, and the time.
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	// Who asked: the holder of the admin token or someone on this machine, and
	// from which address; or what in the gateway itself made the change.
	Who string `json:"who"`
	// Operation is what was changed, such as limits.set, and Target what of it.
	Operation string `json:"operation"`
	Target    string `json:"target,omitempty"`
	// Step is asked where a confirmation was asked for, refused where that did
	// not do, and done.
	Step string `json:"step"`
	// Old and New are what was and what is now; nil where there is nothing.
	Old    any    `json:"old"`
	New    any    `json:"new"`
	Reason string `json:"reason"`
	// ConfigVersion is the hash of the configuration that was running.
	ConfigVersion string `json:"config_version"`
}

// The steps of a change.
const (
	stepAsked   = "asked"
	stepRefused = "refused"
	stepDone    = "done"
)

const (
	// keptEntries is how many entries are kept in memory.
	keptEntries = 1000
	// auditTail is how much of a file's end is read at the start.
	auditTail = 1 << 20
)

// AuditOptions are what the record is made of.
type AuditOptions struct {
	// Path is the file that entries are appended to; "" keeps them in memory.
	Path string
	// Version is the hash of the running configuration.
	Version func() string
	// Redact takes secrets out of a text.
	Redact func(string) string
}

// Audit is the record of operators' changes: it is only ever appended to. Many
// goroutines may use it.
type Audit struct {
	o    AuditOptions
	mu   sync.Mutex
	file *os.File
	seq  int64
	kept []json.RawMessage // oldest first
}

// OpenAudit opens the record, and reads the latest entries of its file.
func OpenAudit(o AuditOptions) (*Audit, error) {
	a := &Audit{o: o}
	if o.Path == "" {
		return a, nil
	}
	f, err := os.OpenFile(o.Path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the record of changes (server.admin.audit): %w", err)
	}
	if err := a.read(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("cannot read the record of changes (server.admin.audit): %w", err)
	}
	a.file = f
	return a, nil
}

// read takes up the file's last entries. What is no entry, such as a line that
// was being written when the machine stopped, is passed over, and ended, so that
// the next entry has a line of its own.
func (a *Audit) read(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	from := max(0, info.Size()-auditTail)
	tail, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return err
	}
	if len(tail) > 0 && tail[len(tail)-1] != '\n' {
		if _, err := f.WriteString("\n"); err != nil {
			return err
		}
	}
	lines := bufio.NewScanner(bytes.NewReader(tail))
	lines.Buffer(nil, auditTail+1)
	for lines.Scan() {
		var e struct {
			Seq int64 `json:"seq"`
		}
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Seq > 0 {
			a.seq = e.Seq
			a.keep(bytes.Clone(lines.Bytes()))
		}
	}
	return lines.Err()
}

func (a *Audit) keep(line json.RawMessage) {
	if len(a.kept) == keptEntries {
		a.kept = append(a.kept[:0], a.kept[1:]...)
	}
	a.kept = append(a.kept, line)
}

// Record appends an entry. When it returns nil the entry is on disk, if there is
// a file; else the entry is in memory only.
func (a *Audit) Record(e Entry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq++
	e.Seq, e.Time, e.ConfigVersion = a.seq, time.Now().UTC(), a.o.Version()
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("the record of changes: %w", err)
	}
	// A secret may stand in a reason that an operator wrote.
	if clean := []byte(a.o.Redact(string(line))); json.Valid(clean) {
		line = clean
	}
	a.keep(line)
	if a.file == nil {
		return nil
	}
	if _, err := a.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("the record of changes: %w", err)
	}
	if err := a.file.Sync(); err != nil {
		return fmt.Errorf("the record of changes: %w", err)
	}
	return nil
}

// Latest are the newest entries, the newest first.
func (a *Audit) Latest(most int) []json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]json.RawMessage, 0, min(most, len(a.kept)))
	for i := len(a.kept) - 1; i >= 0 && len(all) < most; i-- {
		all = append(all, a.kept[i])
	}
	return all
}

// Close closes the file.
func (a *Audit) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	f := a.file
	a.file = nil
	return f.Close()
}

func (g *server) audit(w http.ResponseWriter, r *http.Request) {
	if limit, ok := number(w, r, "limit", defaultLimit, keptEntries); ok {
		write(w, http.StatusOK, map[string]any{"entries": g.Audit.Latest(limit)})
	}
}
