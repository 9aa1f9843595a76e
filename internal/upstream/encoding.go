package upstream

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
)

// errEncoding is a body that is not what its Content-Encoding says.
var errEncoding = errors.New("the body is not what its Content-Encoding says")

// Gunzip undoes gzip as the bytes come: whatever the sender has flushed is
// there to read at once.
func Gunzip(body io.ReadCloser) io.ReadCloser { return &gunzip{body: body} }

type gunzip struct {
	body io.ReadCloser
	z    *gzip.Reader
}

// Read makes the reader late, as making it waits for the first bytes.
func (g *gunzip) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(g.body)
		if err != nil {
			return 0, encodingError(err)
		}
		g.z = z
	}
	n, err := g.z.Read(p)
	return n, encodingError(err)
}

func (g *gunzip) Close() error { return g.body.Close() }

func encodingError(err error) error {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	if corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return errors.Join(errEncoding, err)
	}
	return err
}
