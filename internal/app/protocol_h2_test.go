package app_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/headgate-ai/headgate/lab/fake"
)

// frames is an HTTP/2 client that does only what it is told.
type frames struct {
	t    *testing.T
	conn net.Conn
	f    *http2.Framer
	b    bytes.Buffer
	enc  *hpack.Encoder
	next uint32
	host string
}

// dial opens a connection, with prior knowledge or over TLS, and reads the
// server's settings.
func dial(t *testing.T, addr string, secure *tls.Config) (*frames, map[http2.SettingID]uint32) {
	t.Helper()
	var c net.Conn
	var err error
	if secure != nil {
		c, err = tls.Dial("tcp", addr, secure)
	} else {
		c, err = net.Dial("tcp", addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := &frames{t: t, conn: c, f: http2.NewFramer(c, c), next: 1, host: addr}
	f.enc = hpack.NewEncoder(&f.b)
	f.f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := f.f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	settings := map[http2.SettingID]uint32{}
	frame, err := f.f.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	s, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("the first frame is %v", frame)
	}
	_ = s.ForeachSetting(func(s http2.Setting) error { settings[s.ID] = s.Val; return nil })
	if err := f.f.WriteSettingsAck(); err != nil {
		t.Fatal(err)
	}
	if err := f.f.WriteWindowUpdate(0, 1<<24); err != nil {
		t.Fatal(err)
	}
	return f, settings
}

// block is the header block of a call.
func (f *frames) block(extra ...string) []byte {
	f.b.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", chatPath, ":authority", f.host,
		"authorization", "Bearer " + key, "content-type", "application/json"}, extra...)
	for i := 0; i < len(fields); i += 2 {
		_ = f.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return f.b.Bytes()
}

// call opens a stream with a JSON body.
func (f *frames) call(body string) (id uint32, err error) {
	id = f.next
	f.next += 2
	if err := f.f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.block(), EndHeaders: true}); err != nil {
		return id, err
	}
	return id, f.f.WriteData(id, true, []byte(body))
}

const slowBody = `{"model":"chat","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// A2: the bound on streams is told, and holds.
func TestStreamBound(t *testing.T) {
	t.Parallel()
	g := start(t, setup{Fake: func(c *fake.Config) {
		c.EarlyHeaders, c.StallAfter = true, 1 // one token, and then silence
	}})
	f, settings := dial(t, g.API(), nil)
	if n := settings[http2.SettingMaxConcurrentStreams]; n != 200 {
		t.Fatalf("SETTINGS_MAX_CONCURRENT_STREAMS is %d", n)
	}
	for range 200 {
		if _, err := f.call(slowBody); err != nil {
			t.Fatal(err)
		}
	}
	refused := uint32(0)
	running := map[uint32]bool{}
	for refused == 0 {
		frame, err := f.f.ReadFrame()
		if err != nil {
			t.Fatalf("%v with %d streams", err, len(running))
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if frame.PseudoValue("status") != "200" {
				t.Fatalf("stream %d: %s", frame.StreamID, frame.PseudoValue("status"))
			}
		case *http2.DataFrame:
			running[frame.StreamID] = true
			if len(running) == 200 {
				if _, err := f.call(slowBody); err != nil {
					t.Fatal(err)
				}
			}
		case *http2.RSTStreamFrame:
			refused = frame.StreamID
			if frame.ErrCode != http2.ErrCodeRefusedStream && frame.ErrCode != http2.ErrCodeProtocol {
				t.Errorf("stream %d: %v", frame.StreamID, frame.ErrCode)
			}
		case *http2.GoAwayFrame:
			t.Fatalf("the connection is ended: %v", frame.ErrCode)
		}
	}
	if len(running) != 200 || refused != 401 {
		t.Errorf("stream %d was refused with %d running", refused, len(running))
	}
	if n := g.metric("headgate_streams_open"); n != 200 {
		t.Errorf("%v streams are open", n)
	}
	// Others are served meanwhile, and a stream that ends makes room.
	if a := g.get("/v1/models"); a.StatusCode != 200 || a.ProtoMajor != 1 {
		t.Errorf("HTTP/1.1: %d", a.StatusCode)
	}
	_ = f.f.WriteRSTStream(1, http2.ErrCodeCancel)
	wait(t, "the cancelled stream to end", func() bool { return g.metric("headgate_streams_open") == 199 })
	id, _ := f.call(slowBody)
	for {
		frame, err := f.f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.StreamID == id {
			if h.PseudoValue("status") != "200" {
				t.Errorf("after one ended: %v", h.PseudoValue("status"))
			}
			break
		}
		if r, ok := frame.(*http2.RSTStreamFrame); ok && r.StreamID == id {
			t.Fatalf("after one ended: %v", r.ErrCode)
		}
	}
	_ = f.conn.Close()
	wait(t, "the streams of a closed connection to end", func() bool { return g.metric("headgate_streams_open") == 0 })
}

// others keeps calling, and reports how the calls fared and how long the
// slowest took.
func others(t *testing.T, g *Gateway) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-quit:
				if n < 3 {
					t.Errorf("only %d other calls were made", n)
				}
				return
			default:
			}
			began := time.Now()
			a := g.send(g.request("POST", chatPath, strings.NewReader(chatBody)))
			if a.Err != nil || a.StatusCode != 200 || time.Since(began) > 5*time.Second {
				t.Errorf("another client: %v %v after %v", a.Response, a.Err, time.Since(began))
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// Rapid reset (CVE-2023-44487): streams that are opened and reset at once.
func TestRapidReset(t *testing.T) {
	t.Parallel()
	g := start(t, setup{Fake: func(c *fake.Config) { c.EarlyHeaders, c.StallAfter = false, 0 }})
	stop := others(t, g)
	f, _ := dial(t, g.API(), nil)
	go func() { _, _ = io.Copy(io.Discard, f.conn) }()
	for range 5000 {
		id := f.next
		f.next += 2
		if f.f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.block(), EndHeaders: true, EndStream: false}) != nil ||
			f.f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			break // the server has had enough, which is as good
		}
	}
	time.Sleep(100 * time.Millisecond)
	stop()
	_ = f.conn.Close()
	wait(t, "nothing to be in flight", func() bool { return g.metric("headgate_inflight_requests") == 0 })
	wait(t, "the provider to be idle", func() bool { return g.Fake.Stats().InFlight == 0 })
}

// CONTINUATION flood (CVE-2023-45288): a header block that never ends.
func TestContinuationFlood(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	stop := others(t, g)
	f, _ := dial(t, g.API(), nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, f.conn)
	}()
	_ = f.f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block()})
	chunk := make([]byte, 0, 16<<10)
	for len(chunk) < 15<<10 { // literal fields that are not indexed
		chunk = append(chunk, 0, 1, 'x', 100)
		chunk = append(chunk, strings.Repeat("y", 100)...)
	}
	sent := 0
	for range 2000 { // 30 MB, if no one stops it
		if f.f.WriteContinuation(1, false, chunk) != nil {
			break
		}
		sent += len(chunk)
	}
	if sent > 16<<20 {
		t.Errorf("%d bytes of one header were taken", sent)
	}
	stop()
	_ = f.conn.Close()
	<-ended
	if n := g.metric("headgate_requests_total", `dialect="openai"`, `outcome="error"`); n != 0 {
		t.Errorf("%v requests failed", n)
	}
}

// A header that would desynchronise HTTP/1 does not get through HTTP/2.
func TestHTTP2HeadersAreClean(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	for _, extra := range [][]string{
		{"x-evil", "a\r\nx-injected: 1"},
		{"x evil", "a"},
		{"X-Upper", "a"},
		{"connection", "keep-alive"},
		{"transfer-encoding", "chunked"},
		{"te", "gzip"},
	} {
		f, _ := dial(t, g.API(), nil)
		_ = f.f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block(extra...), EndHeaders: true})
		_ = f.f.WriteData(1, true, []byte(chatBody))
		status := ""
		for status == "" {
			frame, err := f.f.ReadFrame()
			if err != nil {
				status = "closed"
				break
			}
			switch frame := frame.(type) {
			case *http2.MetaHeadersFrame:
				status = frame.PseudoValue("status")
			case *http2.RSTStreamFrame, *http2.GoAwayFrame:
				status = "refused"
			}
		}
		if status == "200" {
			up := g.upstream().Header
			if up.Get("X-Injected") != "" || len(up.Values("Transfer-Encoding")) > 0 || up.Get("Te") != "" || strings.Contains(fmt.Sprint(up), "evil") {
				t.Errorf("%q: the provider got %v", extra, up)
			}
		}
		_ = f.conn.Close()
	}
}
