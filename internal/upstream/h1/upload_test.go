package h1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// stream is a body that is read in pieces, and watches that it is closed once
// and not read after that.
type stream struct {
	next   func() (string, error)
	closes atomic.Int32
	inRead atomic.Bool
	late   atomic.Bool
}

func (s *stream) Read(p []byte) (int, error) {
	s.inRead.Store(true)
	defer s.inRead.Store(false)
	if s.closes.Load() > 0 {
		s.late.Store(true)
	}
	text, err := s.next()
	return copy(p, text), err
}

func (s *stream) Close() error {
	if s.inRead.Load() {
		s.late.Store(true)
	}
	s.closes.Add(1)
	return nil
}

func (s *stream) check(t *testing.T) {
	t.Helper()
	eventually(t, "closing the body", func() bool { return s.closes.Load() > 0 })
	if s.closes.Load() != 1 || s.late.Load() {
		t.Errorf("closed %d times, late: %v", s.closes.Load(), s.late.Load())
	}
}

func endless() (string, error) { return strings.Repeat("x", 32<<10), nil }

const tooLarge = "HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge"

// TestEarlyAnswer: a server answers before it has read the body, and then
// reads on, waits, or closes (client pitfall 5).
func TestEarlyAnswer(t *testing.T) {
	for _, way := range []string{"memory", "counted", "chunked", "stalled"} {
		for _, then := range []string{"waits", "closes", "reads"} {
			t.Run(way+" "+then, func(t *testing.T) {
				s := rawServer(t, func(c net.Conn) {
					_, _ = c.Read(make([]byte, 1000))
					_, _ = io.WriteString(c, tooLarge)
					switch then {
					case "closes":
						_ = c.(*net.TCPConn).CloseWrite()
						time.Sleep(10 * time.Millisecond)
					case "reads":
						_, _ = io.Copy(io.Discard, c)
					default:
						time.Sleep(100 * time.Millisecond)
					}
				})
				tr := newTransport(t, Config{})
				req := newRequest(t, "POST", s.url(), "")
				stop := make(chan struct{})
				defer close(stop)
				body := &stream{next: endless}
				req.Body, req.ContentLength = body, 1<<30
				switch way {
				case "memory":
					req.Body, req.ContentLength = newMemory(strings.Repeat("x", 32<<20)), 0
				case "chunked":
					req.ContentLength = -1
				case "stalled": // nobody can interrupt this Read
					body.next = func() (string, error) { <-stop; return "x", nil }
				}
				var info Info
				resp, err := tr.roundTrip(req, &info)
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				if resp.StatusCode != 413 || string(b) != "large" || err != nil || !info.Wrote {
					t.Errorf("%d, %q, %v, %+v", resp.StatusCode, b, err, info)
				}
				resp.Body.Close()
				if st := tr.Stats(); st.Open != 0 {
					t.Errorf("%+v", st)
				}
				if way == "stalled" {
					stop <- struct{}{}
				}
				if way != "memory" {
					body.check(t)
				} else if m := req.Body.(*memory); m.closes != 1 {
					t.Errorf("closed %d times", m.closes)
				}
			})
		}
	}
}

// TestWriteFailsAnswerThere: the server answered and closed before anything
// was written; the answer counts.
func TestWriteFailsAnswerThere(t *testing.T) {
	for _, size := range []int{10, 200 << 10} {
		s := rawServer(t, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
			_, _ = c.Read(make([]byte, 1))
		})
		var fail atomic.Bool
		fail.Store(true)
		tr := newTransport(t, Config{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return unwritable{nc}, err
		}})
		resp, body, _ := must(t, tr, newRequest(t, "POST", s.url(), strings.Repeat("x", size)))
		if resp.StatusCode != 503 || body != "busy" || tr.Stats().Open != 0 {
			t.Errorf("%d, %q", resp.StatusCode, body)
		}
	}
}

type unwritable struct{ net.Conn }

func (unwritable) Write([]byte) (int, error) { return 0, errors.New("can't write") }

// TestEchoWhileUploading: an answer may go on while the request does.
func TestEchoWhileUploading(t *testing.T) {
	s := rawServer(t, func(c net.Conn) {
		for {
			r := bufio.NewReader(c)
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, okHead+"Transfer-Encoding: chunked\r\n\r\n")
			p := make([]byte, 100)
			for {
				n, err := req.Body.Read(p)
				if n > 0 {
					fmt.Fprintf(c, "%x\r\n%s\r\n", n, p[:n])
				}
				if err != nil {
					break
				}
			}
			_, _ = io.WriteString(c, "0\r\n\r\n")
		}
	})
	tr := newTransport(t, Config{})
	for range 5 {
		pr, pw := io.Pipe()
		req := newRequest(t, "POST", s.url(), "")
		req.Body, req.ContentLength = pr, -1
		resp, err := tr.roundTrip(req, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			text := fmt.Sprintf("event %d\n", i)
			_, _ = io.WriteString(pw, text)
			p := make([]byte, 1000)
			n, err := resp.Body.Read(p)
			if string(p[:n]) != text || err != nil {
				t.Fatalf("%q, %v", p[:n], err)
			}
		}
		pw.Close()
		if b, err := io.ReadAll(resp.Body); len(b) > 0 || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
	}
	if st := tr.Stats(); st.Dialled != 1 || st.Idle != 1 {
		t.Errorf("%+v", st)
	}
}

// TestBodyFails: the body's own error is what the caller gets, and nothing that
// looks like a complete request was sent.
func TestBodyFails(t *testing.T) {
	mine := errors.New("mine")
	for _, c := range []struct {
		name   string
		length int64
		pieces []string
		end    error
		want   error
	}{
		{"counted", 10, []string{"abc"}, mine, mine}, {"chunked", -1, []string{"abc"}, mine, mine},
		{"at once", -1, nil, mine, mine}, {"too short", 10, []string{"abc"}, io.EOF, io.ErrUnexpectedEOF},
		{"too long", 2, []string{"abc", "d"}, io.EOF, http.ErrContentLength},
		{"too long by a piece", 3, []string{"abc", "d"}, io.EOF, http.ErrContentLength},
		{"no progress", -1, make([]string, 1000), io.EOF, io.ErrNoProgress},
	} {
		t.Run(c.name, func(t *testing.T) {
			complete := make(chan bool, 1)
			s := rawServer(t, func(nc net.Conn) {
				req, err := http.ReadRequest(bufio.NewReader(nc))
				if err == nil {
					_, err = io.ReadAll(req.Body)
				}
				complete <- err == nil && c.length < 0
				_, _ = nc.Read(make([]byte, 1))
			})
			tr := newTransport(t, Config{})
			body := &stream{next: func() (string, error) {
				if len(c.pieces) == 0 {
					return "", c.end
				}
				p := c.pieces[0]
				c.pieces = c.pieces[1:]
				return p, nil
			}}
			req := newRequest(t, "POST", s.url(), "")
			req.Body, req.ContentLength = body, c.length
			if c.name == "too long" { // a Read never gives more than was asked for
				body.next = func() (string, error) { return "abc", nil }
			}
			_, err := tr.roundTrip(req, nil)
			if !errors.Is(err, c.want) {
				t.Errorf("error %v", err)
			}
			body.check(t)
			if <-complete {
				t.Error("the server saw a complete request")
			}
			if st := tr.Stats(); st.Open != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestUploadCancelled: Do returns at once, even where the write blocks.
func TestUploadCancelled(t *testing.T) {
	for _, way := range []string{"memory", "counted", "stalled"} {
		t.Run(way, func(t *testing.T) {
			hold := make(chan struct{})
			s := rawServer(t, func(net.Conn) { <-hold })
			defer close(hold)
			tr := newTransport(t, Config{})
			req, cancel := withCancel(t, newRequest(t, "POST", s.url(), ""))
			stop := make(chan struct{})
			body := &stream{next: endless}
			req.Body, req.ContentLength = body, 1<<30
			if way == "memory" {
				req.Body, req.ContentLength = newMemory(strings.Repeat("x", 64<<20)), 0
			} else if way == "stalled" {
				body.next = func() (string, error) { <-stop; return "", io.EOF }
			}
			time.AfterFunc(50*time.Millisecond, cancel)
			begin := time.Now()
			if _, err := tr.roundTrip(req, nil); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if d := time.Since(begin); d > 2*time.Second {
				t.Errorf("took %v", d)
			}
			close(stop)
			if way != "memory" {
				body.check(t)
			} else if m := req.Body.(*memory); m.closes != 1 {
				t.Errorf("closed %d times", m.closes)
			}
		})
	}
}

// TestBodyPanics: the body's panic is the request's error, and not the end of
// the process (pitfall 2 under Both).
func TestBodyPanics(t *testing.T) {
	s := rawServer(t, silent(""))
	tr := newTransport(t, Config{})
	req := newRequest(t, "POST", s.url(), "")
	req.Body, req.ContentLength = &stream{next: func() (string, error) { panic("mine") }}, -1
	if _, err := tr.roundTrip(req, nil); err == nil || !strings.Contains(err.Error(), "panicked: mine") {
		t.Errorf("%v", err)
	}
	if st := tr.Stats(); st.Open != 0 {
		t.Errorf("%+v", st)
	}
}
