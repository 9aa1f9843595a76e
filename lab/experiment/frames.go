package experiment

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is an HTTP/2 client made of frames, so that its flow control can be
// wrong. It has one connection and the default windows of 65,535 bytes.
type frames struct {
	conn     net.Conn
	perToken bool // credit is returned for tokens instead of bytes
	reader   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	framer  *http2.Framer
	header  bytes.Buffer
	hpack   *hpack.Encoder
	streams []*frameStream // the stream with id n is at (n-1)/2
	bytes   int
}

type frameStream struct {
	begun    time.Time
	first    time.Duration // until the first data, 0 before
	finished bool
}

func dialFrames(address string, perToken bool) (*frames, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	x := &frames{conn: conn, perToken: perToken, framer: http2.NewFramer(conn, conn)}
	x.hpack = hpack.NewEncoder(&x.header)
	if _, err = io.WriteString(conn, http2.ClientPreface); err == nil {
		err = x.framer.WriteSettings()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	x.reader.Go(x.read)
	return x, nil
}

func (x *frames) close() {
	_ = x.conn.Close()
	x.reader.Wait()
}

// open sends one call.
func (x *frames) open(path, body string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.header.Reset()
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", path},
		{"content-type", "application/json"}, {"content-length", strconv.Itoa(len(body))},
	} {
		if err := x.hpack.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return err
		}
	}
	id := uint32(2*len(x.streams) + 1)
	x.streams = append(x.streams, &frameStream{begun: time.Now()})
	if err := x.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: x.header.Bytes(), EndHeaders: true}); err != nil {
		return fmt.Errorf("cannot send headers: %w", err)
	}
	return x.framer.WriteData(id, true, []byte(body))
}

// read takes in frames until the connection ends. Framer reads and writes may
// go on at the same time.
func (x *frames) read() {
	for {
		f, err := x.framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				x.write(func() error { return x.framer.WriteSettingsAck() })
			}
		case *http2.PingFrame:
			x.write(func() error { return x.framer.WritePing(true, f.Data) })
		case *http2.DataFrame:
			x.data(f)
		}
	}
}

// write sends a frame. An error shows in the next read.
func (x *frames) write(send func() error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	_ = send()
}

// data accounts for a frame and returns credit for it: its length on the wire,
// or, which is the mistake, the number of tokens in it.
func (x *frames) data(f *http2.DataFrame) {
	credit := f.Length
	if x.perToken {
		credit = uint32(bytes.Count(f.Data(), []byte("data: ")))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.streams[(f.StreamID-1)/2]
	if s.first == 0 && len(f.Data()) > 0 {
		s.first = time.Since(s.begun)
	}
	s.finished = s.finished || f.StreamEnded()
	x.bytes += int(f.Length)
	if credit == 0 {
		return
	}
	_ = x.framer.WriteWindowUpdate(0, credit)
	if !s.finished {
		_ = x.framer.WriteWindowUpdate(f.StreamID, credit)
	}
}

// wait returns when all streams have finished, or when the last of them has had
// the time for it.
func (x *frames) wait(ctx context.Context, patience time.Duration) {
	for end := time.Now().Add(patience); ctx.Err() == nil && time.Now().Before(end) && !x.allFinished(); {
		pause(ctx, 10*time.Millisecond)
	}
}

func (x *frames) allFinished() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.streams {
		if !s.finished {
			return false
		}
	}
	return true
}
