package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	shBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	word    = regexp.MustCompile(`"[^"]*"|\S+`)
)

// The commands of the operators' page do what they say. What differs from the
// page is where the gateway and its files are, and the id of the key.
func TestCommandsOfTheOperatorsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	d := open(t)
	t.Chdir(d.dir)
	id, ran := "", 0
	for _, block := range shBlock.FindAllSubmatch(page, -1) {
		for line := range strings.Lines(string(block[1])) {
			args := word.FindAllString(strings.NewReplacer("per-key", "each", "ab3de4fgh5ij6klm", id).Replace(line), -1)
			if args[0] != "headgate" {
				continue
			}
			args = args[1:]
			for i, arg := range args {
				if args[i] = strings.Trim(arg, `"`); arg == "headgate.db" {
					args[i] = "ledger.db"
				} else if arg == ">" {
					args = args[:i]
					break
				}
			}
			out, _ := d.run(0, d.placed(args)...)
			if ran++; len(args) > 1 && args[1] == "create" {
				id = strings.Split(out, "_")[1]
			}
		}
	}
	if ran < 10 {
		t.Errorf("%d commands were run", ran)
	}
}

// placed are the arguments with where the gateway or its files are.
func (d *desk) placed(args []string) []string {
	line := strings.Join(args, " ")
	switch {
	case strings.HasPrefix(line, "usage reconcile"):
		invoice := "date,model,input_tokens,output_tokens,cost\n"
		if err := os.WriteFile(filepath.Join(d.dir, "invoice.csv"), []byte(invoice), 0o600); err != nil {
			d.t.Fatal(err)
		}
	case strings.Contains(line, "--ledger"), strings.Contains(line, "--config"): // it says where
	case args[0] == "keys":
		args = append(args, "--config", "headgate.yaml")
		if args[1] == "rotate" || args[1] == "revoke" {
			args = append(args, "--yes") // there is nobody to ask
		}
	case args[0] == "limits":
		args = append(args, "--admin", d.admin, "--yes")
	default:
		args = append(args, "--admin", d.admin)
	}
	return args
}
