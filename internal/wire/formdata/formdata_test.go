package formdata_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/wire/formdata"
)

// feed splits body into pieces of at most n bytes.
func feed(s *formdata.Scanner, body []byte, n int) error {
	for len(body) > 0 {
		k := min(n, len(body))
		if err := s.Feed(body[:k]); err != nil {
			return err
		}
		body = body[k:]
	}
	return s.End()
}

func form(t testing.TB, fields ...string) (boundary string, body []byte) {
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	for i := 0; i < len(fields); i += 2 {
		if name, file := strings.CutPrefix(fields[i], "@"); file {
			fw, err := w.CreateFormFile(name, "f.bin")
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(fw, fields[i+1])
		} else if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return w.Boundary(), buf.Bytes()
}

func TestFieldsWhateverTheReads(t *testing.T) {
	bin := make([]byte, 5000)
	for i := range bin {
		bin[i] = byte(rand.IntN(256))
	}
	boundary, body := form(t, "@file", string(bin)+"\r\n--not the boundary\r\n", "model", "whisper-1", "empty", "", "stream", "true")
	for _, n := range []int{1, 2, 3, 7, 64, 1000, 1 << 20} {
		s := formdata.New(boundary, "model", "stream", "empty")
		if err := feed(s, body, n); err != nil {
			t.Fatalf("pieces of %d: %v", n, err)
		}
		for name, want := range map[string]string{"model": "whisper-1", "stream": "true", "empty": ""} {
			f, ok := s.Field(name)
			if !ok || f.Value != want || string(body[f.Start:f.End]) != want {
				t.Errorf("pieces of %d: %s = %+v, %v; want %q where it lies", n, name, f, ok, want)
			}
		}
	}
}

func TestRefusesWhatParsersReadDifferently(t *testing.T) {
	const head = "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\na\r\n"
	for name, body := range map[string]string{
		"twice":             head + head + "--B--\r\n",
		"bare LF":           head + "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\nzz\n--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nb\r\n--B--\r\n",
		"no end":            head,
		"file":              "--B\r\nContent-Disposition: form-data; name=\"model\"; filename=\"m\"\r\n\r\na\r\n--B--\r\n",
		"encoded":           "--B\r\nContent-Disposition: form-data; name=\"model\"\r\nContent-Transfer-Encoding: base64\r\n\r\nYQ==\r\n--B--\r\n",
		"folded":            "--B\r\nContent-Disposition: form-data;\r\n name=\"model\"\r\n\r\na\r\n--B--\r\n",
		"no line end":       "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n--B--\r\n",
		"text behind":       "--Bx\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\na\r\n--B--\r\n",
		"two dispositions":  "--B\r\nContent-Disposition: form-data; name=\"x\"\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\na\r\n--B--\r\n",
		"header too long":   "--B\r\nX: " + strings.Repeat("y", 9000),
		"value too long":    "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + strings.Repeat("y", 9000),
		"no disposition":    "--B\r\nnonsense\r\n\r\na\r\n--B--\r\n",
		"not even a prefix": "hello",
	} {
		for _, n := range []int{1, 5, 1 << 20} {
			if err := feed(formdata.New("B", "model"), []byte(body), n); err == nil {
				t.Errorf("%s, pieces of %d: accepted", name, n)
			}
		}
	}
}

// FuzzScanner holds the scanner against mime/multipart: whatever it accepts,
// the standard reader reads with the same value; and no split changes anything.
func FuzzScanner(f *testing.F) {
	boundary, body := form(f, "@file", "data\r\n--", "model", "m-1", "x", "y")
	f.Add(boundary, body, uint8(3))
	f.Add("B", []byte("--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\na\r\n--B--\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, boundary string, body []byte, n uint8) {
		if boundary == "" || len(boundary) > 70 || strings.ContainsAny(boundary, "\r\n\" ") {
			return
		}
		whole := formdata.New(boundary, "model")
		werr := feed(whole, body, len(body)+1)
		split := formdata.New(boundary, "model")
		serr := feed(split, body, int(n)+1)
		if (werr == nil) != (serr == nil) {
			t.Fatalf("whole: %v, split: %v", werr, serr)
		}
		if werr != nil {
			return
		}
		a, ok := whole.Field("model")
		if b, ok2 := split.Field("model"); a != b || ok != ok2 {
			t.Fatalf("whole %+v, split %+v", a, b)
		}
		want, found := oracle(boundary, body)
		if found && (!ok || a.Value != want) {
			t.Fatalf("scanner %+v %v, mime/multipart %q", a, ok, want)
		}
	})
}

// oracle is the model field as mime/multipart reads it.
func oracle(boundary string, body []byte) (string, bool) {
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		p, err := r.NextPart()
		if err != nil {
			return "", false
		}
		if p.FormName() == "model" {
			v, err := io.ReadAll(p)
			if err != nil && !errors.Is(err, io.EOF) {
				return "", false
			}
			return string(v), true
		}
	}
}
