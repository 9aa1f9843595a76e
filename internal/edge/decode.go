package edge

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
)

// Receive reads the request's body: whole, within the limit, but for multipart
// uploads, of which the beginning is enough.
func (x *Exchange) Receive(ctx context.Context) (*llm.Call, error) {
	call := &x.call
	*call = llm.Call{
		ID: x.ID, Dialect: x.Inbound.Dialect(), Op: x.Route.Op, Method: x.r.Method,
		Path: x.Route.Upstream + upstreamQuery(x.r.URL.RawQuery), Header: x.r.Header,
	}
	if x.Route.Body == NoBody {
		call.Model = x.ModelID
		return call, nil
	}
	form, err := x.mediaType()
	if err != nil {
		return nil, err
	}
	if x.r.ContentLength > x.plan.maxBody {
		return nil, tooLarge(x.plan.maxBody)
	}
	_ = x.control().SetReadDeadline(time.Now().Add(x.bodyTimeout()))
	if call.Form = form; form {
		err = x.receiveForm(ctx, call)
	} else {
		err = x.receiveJSON(ctx, call)
	}
	if err != nil {
		return nil, err
	}
	if call.Rest == nil {
		_ = x.control().SetReadDeadline(time.Time{})
	}
	return call, nil
}

// Decode reads what the gateway must know of a body that has been received.
func (x *Exchange) Decode(call *llm.Call) (err error) {
	switch {
	case x.Route.Body == NoBody:
		return nil
	case call.Form:
		err = x.formEnvelope(call)
	default:
		call.Envelope, err = x.Inbound.Peek(call.Op, call.Raw)
	}
	call.WantsStream = call.Stream || !call.Form && x.Route.Events && prefersEvents(x.r.Header)
	return err
}

// Warnings are remarks on the request that did not stop it.
func (x *Exchange) Warnings(call *llm.Call) (w []string) {
	accept := wire.First(x.r.Header, "Accept")
	if call.Stream && accept != "" && !strings.Contains(accept, "text/event-stream") && !strings.Contains(accept, "*/*") && strings.Contains(accept, "application/json") {
		w = append(w, "accept_json_but_stream_true")
	}
	for _, name := range []string{"Api-Version", "X-Api-Version", "Accept-Version"} {
		if x.r.Header.Get(name) != "" {
			w = append(w, "version_header_ignored")
			break
		}
	}
	return w
}

// bodyTimeout allows one second for every 64 KiB beside the fixed time, so
// that a large upload over a slow line is possible and a trickle is not.
func (x *Exchange) bodyTimeout() time.Duration {
	n := x.r.ContentLength
	if n < 0 {
		n = x.plan.maxBody
	}
	return x.plan.bodyTimeout + time.Duration(n/(64<<10))*time.Second
}

// mediaType checks the content type against the route, and reports whether the
// body is a form.
func (x *Exchange) mediaType() (form bool, err error) {
	header := wire.First(x.r.Header, "Content-Type")
	if (header == "" || header == "application/json") && x.Route.Body != FormBody {
		return false, nil
	}
	media, params, perr := mime.ParseMediaType(header)
	switch {
	case perr != nil:
	case (media == "application/json" || strings.HasSuffix(media, "+json")) && x.Route.Body != FormBody:
		return false, nil
	case media == "multipart/form-data" && x.Route.Body != JSONBody:
		if params["boundary"] == "" {
			return false, fault.New(fault.Malformed, "edge.Decode", "The Content-Type multipart/form-data has no boundary.")
		}
		return true, nil
	}
	want := map[Body]string{JSONBody: "application/json", FormBody: "multipart/form-data", JSONOrFormBody: "application/json or multipart/form-data"}[x.Route.Body]
	return false, fault.New(fault.UnsupportedMedia, "edge.Decode", "The Content-Type %q is not supported here; send %s.", fault.Legible(header), want)
}

func (x *Exchange) receiveJSON(ctx context.Context, call *llm.Call) error {
	var sent *heard // the coded bytes
	body, length := io.Reader(x.r.Body), x.r.ContentLength
	switch encoding := strings.ToLower(strings.TrimSpace(wire.First(x.r.Header, "Content-Encoding"))); encoding {
	case "", "identity": // identity is no content coding (RFC 9110), but clients send it
	case "gzip", "x-gzip":
		sent = &heard{r: x.r.Body}
		zr, err := gzip.NewReader(sent)
		if err != nil {
			return x.gzipFault(ctx, sent, err)
		}
		body, length = zr, -1
	default:
		return fault.New(fault.UnsupportedMedia, "edge.Decode", "The Content-Encoding %q of the request body is not supported; send the body as it is, or with gzip.", fault.Legible(encoding))
	}
	if err := x.body.read(body, length, x.plan.maxBody); err != nil {
		if sent != nil {
			return x.gzipFault(ctx, sent, err)
		}
		return clientFault(ctx, err, x.plan.maxBody)
	}
	call.Raw, call.Length = x.body.bytes(), int64(len(x.body.bytes()))
	return nil
}

// heard is a reader that remembers how reading went.
type heard struct {
	r   io.Reader
	err error
}

func (h *heard) Read(p []byte) (n int, err error) {
	n, err = h.r.Read(p)
	h.err = err
	return n, err
}

// gzipFault tells a body that is not gzip, or breaks off within it, from a
// client that could not be read.
func (x *Exchange) gzipFault(ctx context.Context, sent *heard, err error) error {
	_, large := errors.AsType[*http.MaxBytesError](err)
	if !large && (sent.err == nil || errors.Is(sent.err, io.EOF)) {
		return fault.New(fault.Malformed, "edge.Decode", "The request body is not the gzip data that its Content-Encoding says.")
	}
	return clientFault(ctx, err, x.plan.maxBody)
}

// prefersEvents is whether the Accept header names text/event-stream and
// prefers it to JSON.
func prefersEvents(h http.Header) bool {
	accept := wire.First(h, "Accept")
	if !strings.Contains(accept, "text/event-stream") {
		return false
	}
	events, json := 0.0, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := quality(params["q"])
		switch media {
		case "text/event-stream":
			events = max(events, q)
		case "application/json":
			json = max(json, q)
		}
	}
	return events > 0 && events > json
}

func quality(q string) float64 {
	if q == "" {
		return 1
	}
	return parseQ(q)
}

// upstreamQuery is the client's query without any credential, with its
// question mark.
func upstreamQuery(raw string) string {
	if raw == "" {
		return ""
	}
	var keep []string
	for pair := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if n, err := url.QueryUnescape(name); err != nil || queryCredential(n) {
			continue
		}
		keep = append(keep, pair)
	}
	if len(keep) == 0 {
		return ""
	}
	return "?" + strings.Join(keep, "&")
}

// queryCredential is whether a query parameter may hold a credential.
func queryCredential(name string) bool {
	switch strings.ToLower(name) {
	case "key", "api_key", "api-key", "apikey", "access_token", "token":
		return true
	}
	return false
}

// errTooLarge marks a body beyond the limit, in the words net/http uses.
func errTooLarge(limit int64) error { return &http.MaxBytesError{Limit: limit} }
