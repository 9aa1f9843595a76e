package sse

import (
	"bytes"
	"strings"
	"testing"
)

// chunk is an event of about 250 bytes as OpenAI's API sends them.
var chunk = []byte(`data: {"id":"chatcmpl-9f8e7d6c5b4a39281706","object":"chat.completion.chunk","created":1730000000,` +
	`"model":"gpt-4o-mini-2024-07-18","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" token"},` +
	`"logprobs":null,"finish_reason":null}]}` + "\n\n")

var named = append([]byte("event: content_block_delta\n"), chunk...)

func TestNoAllocations(t *testing.T) {
	lines := []byte("id: 1\nevent: e\ndata: a\ndata: b\ndata: c\n\n")
	var s Scanner
	if n := testing.AllocsPerRun(1000, func() {
		for _, buf := range [][]byte{chunk, named, lines, chunk[:100]} {
			s.Next(buf)
		}
		s.Tail(chunk[:200])
	}); n != 0 {
		t.Errorf("scanner: %v allocations", n)
	}
	dst, data := make([]byte, 0, 1024), chunk[6:]
	if n := testing.AllocsPerRun(1000, func() {
		out := AppendRetry(dst, 3000)
		out = AppendEvent(out, "message", data)
		_ = AppendComment(out, "ping")
	}); n != 0 {
		t.Errorf("writer: %v allocations", n)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct {
		name string
		buf  []byte
	}{
		{"250B", chunk},
		{"named", named},
		{"CRLF", bytes.ReplaceAll(chunk, []byte("\n"), []byte("\r\n"))},
		{"lines", []byte(strings.Repeat("data: 0123456789\n", 15) + "\n")},
		{"64K", []byte("data: " + strings.Repeat("x", 64<<10) + "\n\n")},
		{"blank", []byte("\n")},
	} {
		b.Run(c.name, func(b *testing.B) {
			var s Scanner
			b.SetBytes(int64(len(c.buf)))
			b.ReportAllocs()
			for b.Loop() {
				if ev, ok := s.Next(c.buf); !ok || ev.Size != len(c.buf) {
					b.Fatal(ev.Size)
				}
			}
		})
	}
}

// BenchmarkNextPieces is one event of 1 MiB in reads of 4 KiB.
func BenchmarkNextPieces(b *testing.B) {
	buf := []byte("data: " + strings.Repeat("x", 1<<20) + "\n\n")
	var s Scanner
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		for end := 4096; ; end += 4096 {
			if _, ok := s.Next(buf[:min(end, len(buf))]); ok {
				break
			}
		}
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	dst, data := make([]byte, 0, 1024), bytes.TrimSpace(chunk[6:])
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendEvent(dst[:0], "", data)
	}
}
