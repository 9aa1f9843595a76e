package experiment_test

import (
	"bytes"
	"encoding/csv"
	"image/png"
	"testing"
	"testing/synctest"

	"github.com/headgate-ai/headgate/lab/experiment"
)

// The sweep at full length, in a bubble's time: it shows what the row says,
// exactly, whatever else this machine does.
func TestKnee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := experiment.Find("knee")
		res, err := experiment.Run(t.Context(), e, experiment.Options{Rounds: 1})
		if err != nil {
			t.Fatal(err)
		}
		var table bytes.Buffer
		if err := res.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		if !res.Holds {
			t.Errorf("the shape does not hold:\n%s", table.String())
		}
		checkTable(t, e, table.String())
		checkJSON(t, e, res)
		checkCurves(t, e.Curves(res))
	})
}

// checkCurves wants a row for each point, and a picture.
func checkCurves(t *testing.T, c *experiment.Curves) {
	t.Helper()
	var table, picture bytes.Buffer
	if err := c.WriteCSV(&table); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil || len(rows) != 1+2*3*8 || rows[0][5] != "p99_ms" {
		t.Errorf("%v, %v", rows, err)
	}
	if err := c.WritePNG(&picture); err != nil {
		t.Fatal(err)
	}
	if p, err := png.Decode(&picture); err != nil || p.Bounds().Dx() < 800 {
		t.Error(err)
	}
}
