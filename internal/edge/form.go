package edge

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/formdata"
)

// formHead is how much of an upload is held in memory while the model is
// looked for. Where it comes later, behind a large file, the upload is put into
// a temporary file first.
const formHead = 1 << 20

func (x *Exchange) receiveForm(ctx context.Context, call *llm.Call) error {
	if e := wire.First(x.r.Header, "Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return fault.New(fault.UnsupportedMedia, "edge.Decode", "The Content-Encoding %q is not supported for uploads; send the form as it is.", fault.Legible(e))
	}
	_, params, err := mime.ParseMediaType(wire.First(x.r.Header, "Content-Type"))
	if err != nil {
		return fault.New(fault.Malformed, "edge.Decode", "The Content-Type of the upload is malformed.")
	}
	scan := formdata.New(params["boundary"], "model", "stream")
	body := http.MaxBytesReader(x.w, x.r.Body, x.plan.maxBody)
	whole, err := x.readHead(scan, body)
	if err != nil {
		return formFault(ctx, err, x.plan.maxBody)
	}
	call.Raw, call.Length = x.body.bytes(), x.r.ContentLength
	switch _, known := scan.Field("model"); {
	case whole:
		if serr := scan.End(); serr != nil {
			err = formError{serr}
		}
		call.Length = int64(len(call.Raw))
	case known:
		// The rest is watched while it streams, so that no second model field
		// can slip past the decision about the first.
		_ = x.control().EnableFullDuplex() // unknown to HTTP/2, which needs no leave
		call.Rest = &watched{ctx: ctx, r: body, scan: scan, limit: x.plan.maxBody}
	default:
		err = x.spool(ctx, call, scan, body)
	}
	if err != nil {
		return formFault(ctx, err, x.plan.maxBody)
	}
	x.form = scan
	return nil
}

// readHead reads up to formHead bytes and reports whether that was all.
func (x *Exchange) readHead(scan *formdata.Scanner, body io.Reader) (whole bool, err error) {
	err = x.body.read(io.LimitReader(body, formHead), min(x.r.ContentLength, formHead), formHead)
	if err != nil {
		return false, err
	}
	head := x.body.bytes()
	if err := scan.Feed(head); err != nil {
		return false, formError{err}
	}
	return len(head) < formHead, nil
}

// spool puts the rest of the upload into a file that has no name any more, so
// that nothing is left behind however the process ends.
func (x *Exchange) spool(ctx context.Context, call *llm.Call, scan *formdata.Scanner, body io.Reader) error {
	f, err := os.CreateTemp("", "headgate-upload-*")
	if err != nil {
		return fault.Wrap(fault.Internal, "edge.Decode", err)
	}
	x.file = f
	if err := os.Remove(f.Name()); err != nil {
		return fault.Wrap(fault.Internal, "edge.Decode", err)
	}
	n, err := io.Copy(f, &watched{ctx: ctx, r: body, scan: scan, limit: x.plan.maxBody})
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fault.Wrap(fault.Internal, "edge.Decode", err)
	}
	call.Rest, call.Length = f, int64(len(call.Raw))+n
	return nil
}

func (x *Exchange) formEnvelope(call *llm.Call) error {
	model, ok := x.form.Field("model")
	if !ok || model.Value == "" {
		e := fault.New(fault.Malformed, "edge.Decode", "The form field \"model\" is missing or empty; name the model to use.")
		e.Param = "model"
		return e
	}
	call.Model, call.ModelAt = model.Value, llm.Span{Start: int(model.Start), End: int(model.End)}
	if stream, ok := x.form.Field("stream"); ok {
		call.Stream = stream.Value == "true" || stream.Value == "1"
	}
	return nil
}

// formError is a form that breaks the rules.
type formError struct{ error }

func formFault(ctx context.Context, err error, limit int64) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if f, ok := errors.AsType[formError](err); ok {
		return fault.New(fault.Malformed, "edge.Decode", "The form is malformed: %v.", f.error)
	}
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return fault.Wrap(fault.Internal, "edge.Decode", err)
	}
	return clientFault(ctx, err, limit)
}

// watched is a reader whose bytes pass a form scanner. Its errors are faults.
type watched struct {
	ctx   context.Context
	r     io.Reader
	scan  *formdata.Scanner
	limit int64
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if serr := w.scan.Feed(p[:n]); serr != nil {
		return 0, formFault(w.ctx, formError{serr}, w.limit)
	}
	switch {
	case errors.Is(err, io.EOF):
		if serr := w.scan.End(); serr != nil {
			return 0, formFault(w.ctx, formError{serr}, w.limit)
		}
	case err != nil:
		err = formFault(w.ctx, err, w.limit)
	}
	return n, err
}
