package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// server is a PostgreSQL of the tests' own, on a socket in its folder.
type server struct {
	bin, dir string
	asUser   bool // PostgreSQL refuses to run as root
}

const install = "; to run this test, install the Debian package postgresql-15"

// start makes and starts a server, and ends it with the test.
func start(t *testing.T) *server {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		t.Skip("PostgreSQL's programs are not in /usr/lib/postgresql" + install)
	}
	slices.Sort(found)
	// Not t.TempDir: a socket's path has at most 107 bytes, and another user must
	// be able to get there.
	dir, err := os.MkdirTemp("", "hgpg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &server{bin: filepath.Dir(found[len(found)-1]), dir: dir, asUser: os.Getuid() == 0}
	if s.asUser {
		s.handOver(t)
	}
	if err := s.run("initdb -D %[1]s/data -A trust -U postgres --no-sync"); err != nil {
		t.Fatal(err)
	}
	s.up(t)
	t.Cleanup(func() { s.down(t) })
	return s
}

func (s *server) handOver(t *testing.T) {
	t.Helper()
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Skip("there is no user postgres" + install)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		t.Skip("the user postgres has no number" + install)
	}
	if err := os.Chown(s.dir, uid, gid); err != nil {
		t.Fatal(err)
	}
}

// run runs one of PostgreSQL's programs; %[1]s stands for the folder.
func (s *server) run(format string) error {
	line := s.bin + "/" + fmt.Sprintf(format, s.dir)
	cmd := exec.Command("sh", "-c", line)
	if s.asUser {
		cmd = exec.Command("su", "postgres", "-s", "/bin/sh", "-c", line)
	}
	cmd.Dir = s.dir
	// Not CombinedOutput: the server inherits the output and would keep it open.
	log, err := os.CreateTemp("", "hgpg")
	if err != nil {
		return err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w: %s", line, err, said)
	}
	return nil
}

func (s *server) up(t *testing.T) {
	t.Helper()
	if err := s.run(`pg_ctl start -w -s -D %[1]s/data -l %[1]s/log -o "-k %[1]s -c listen_addresses='' -c fsync=off"`); err != nil {
		t.Fatal(err)
	}
}

// down ends the server as a crash would.
func (s *server) down(t *testing.T) {
	t.Helper()
	if err := s.run("pg_ctl stop -w -s -m immediate -D %[1]s/data"); err != nil && !strings.Contains(err.Error(), "PID file") {
		t.Error(err)
	}
}

// address is that of a new, empty database.
func (s *server) address(t *testing.T, name string) string {
	t.Helper()
	if err := s.run("createdb -h %[1]s -U postgres " + name); err != nil {
		t.Fatal(err)
	}
	return "postgres://postgres@/" + name + "?host=" + s.dir
}
