package wire

import (
	"bytes"
	"io"

	"github.com/headgate-ai/headgate/internal/llm"
)

// ApplyStream makes edits to a body that streams past. The edits are in order
// and do not overlap.
func ApplyStream(r io.Reader, edits []llm.Edit) io.Reader {
	if len(edits) == 0 {
		return r
	}
	parts := make([]io.Reader, 0, 3*len(edits)+1)
	at := 0
	for _, e := range edits {
		parts = append(parts, io.LimitReader(r, int64(e.Start-at)), bytes.NewReader(e.New), &skip{r, int64(e.Len())})
		at = e.End
	}
	return io.MultiReader(append(parts, r)...)
}

// skip reads and drops n bytes and then is at its end.
type skip struct {
	r io.Reader
	n int64
}

func (s *skip) Read([]byte) (int, error) {
	if s.n > 0 {
		if _, err := io.CopyN(io.Discard, s.r, s.n); err != nil {
			return 0, err
		}
		s.n = 0
	}
	return 0, io.EOF
}
