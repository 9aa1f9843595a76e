package app_test

import (
	"encoding/binary"
	"io"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// Frames that cost their sender nothing, as many as fit into a while: others
// are served meanwhile, no memory grows, and nothing is left in flight, whether
// the connection is ended for it or not.
func TestHTTP2Floods(t *testing.T) {
	g := start(t, setup{})
	window := binary.BigEndian.AppendUint32(nil, 0)
	for _, c := range []struct {
		name  string
		reads bool // the client takes the answers
		open  bool // a request is under way on stream 1
		frame func(f *frames, n uint32) error
	}{
		{"PRIORITY", true, false, func(f *frames, n uint32) error {
			return f.f.WritePriority(2*n+1, http2.PriorityParam{StreamDep: 2*n + 3, Weight: uint8(n), Exclusive: n%2 == 0})
		}},
		{"PRIORITY in a circle", true, true, func(f *frames, n uint32) error {
			return f.f.WritePriority(2*(n%64)+1, http2.PriorityParam{StreamDep: 2*((n+1)%64) + 1, Weight: uint8(n), Exclusive: true})
		}},
		{"PRIORITY_UPDATE", true, false, func(f *frames, n uint32) error {
			return f.f.WriteRawFrame(0x10, 0, 0, append(binary.BigEndian.AppendUint32(nil, 2*n+1), "u=1, i"...))
		}},
		{"SETTINGS", true, false, func(f *frames, n uint32) error {
			return f.f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<16 + n%2})
		}},
		{"SETTINGS, unread", false, true, func(f *frames, n uint32) error {
			return f.f.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: n % 8192})
		}},
		{"PING", true, false, func(f *frames, n uint32) error { return f.f.WritePing(false, [8]byte{byte(n)}) }},
		{"PING, unread", false, false, func(f *frames, n uint32) error { return f.f.WritePing(false, [8]byte{byte(n)}) }},
		{"empty DATA", true, true, func(f *frames, _ uint32) error { return f.f.WriteData(1, false, nil) }},
		{"WINDOW_UPDATE", true, true, func(f *frames, n uint32) error { return f.f.WriteWindowUpdate((n%2)*1, 1) }},
		{"unknown frames", true, false, func(f *frames, n uint32) error { return f.f.WriteRawFrame(0xbe, 0xff, n, window) }},
		// "MadeYouReset" (CVE-2025-8671): the client makes the server reset streams.
		{"streams broken at once", true, false, func(f *frames, n uint32) error {
			id, err := f.call(slowBody)
			if err != nil {
				return err
			}
			return f.f.WriteRawFrame(http2.FrameWindowUpdate, 0, id, window)
		}},
		{"streams broken at once, unread", false, false, func(f *frames, n uint32) error {
			id, err := f.call(slowBody)
			if err != nil {
				return err
			}
			return f.f.WriteRawFrame(http2.FrameWindowUpdate, 0, id, window)
		}},
	} {
		stop := others(t, g)
		f, _ := dial(t, g.API(), nil)
		if c.open {
			_ = f.f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block(), EndHeaders: true})
			f.next = 3
		}
		before := inUse()
		if c.reads {
			go func() { _, _ = io.Copy(io.Discard, f.conn) }()
		}
		// A client that does not read is no longer read from either, in the end.
		_ = f.conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		began, n, ended := time.Now(), uint32(0), false
		for time.Since(began) < 200*time.Millisecond && !ended {
			ended = c.frame(f, n) != nil
			n++
		}
		if grown := inUse() - before; grown > 24<<20 {
			t.Errorf("%s: %d KiB of memory after %d frames", c.name, grown>>10, n)
		}
		stop()
		_ = f.conn.Close()
		wait(t, c.name+": nothing to be in flight", func() bool {
			return g.metric("headgate_inflight_requests") == 0 && g.Fake.Stats().InFlight == 0
		})
		t.Logf("%s: %d frames, connection ended by the gateway: %v", c.name, n, ended)
	}
}
