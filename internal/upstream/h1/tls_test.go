package h1

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// certificate borrows the one of httptest.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s.TLS.Certificates[0], pool
}

// tlsServer is a raw server behind TLS.
func tlsServer(t testing.TB, version uint16, speak func(*tls.Conn)) (string, *tls.Config) {
	cert, pool := certificate(t)
	s := rawServer(t, func(c net.Conn) {
		tc := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: version})
		if tc.Handshake() == nil {
			speak(tc)
		}
	})
	return "https://" + s.Addr().String(), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func versions(t *testing.T, f func(t *testing.T, version uint16)) {
	t.Run("1.2", func(t *testing.T) { f(t, tls.VersionTLS12) })
	t.Run("1.3", func(t *testing.T) { f(t, tls.VersionTLS13) })
}

// TestTLSReuse: session tickets, which come unread after the handshake and lie
// there when the connection is idle, do not make it stale.
func TestTLSReuse(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		url, cfg := tlsServer(t, version, func(c *tls.Conn) { answering(short)(c) })
		tr := newTransport(t, Config{TLS: cfg})
		for range 200 {
			must(t, tr, newRequest(t, "POST", url, "x"))
		}
		if st := tr.Stats(); st.Dialled != 1 || st.Stale != 0 || st.Reused != 199 {
			t.Errorf("%+v", st)
		}
	})
}

// TestTLSStale: what makes a plain connection stale does so under TLS.
func TestTLSStale(t *testing.T) {
	for _, how := range []string{"data", "close_notify", "cut", "garbage"} {
		t.Run(how, func(t *testing.T) {
			versions(t, func(t *testing.T, version uint16) {
				spoil, spoilt := make(chan struct{}), make(chan struct{})
				var n atomic.Int32
				url, cfg := tlsServer(t, version, func(c *tls.Conn) {
					first := n.Add(1) == 1
					for {
						if _, _, err := readRequest(c); err != nil {
							return
						}
						_, _ = io.WriteString(c, short)
						if first {
							break
						}
					}
					<-spoil
					switch how {
					case "data":
						_, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\n\r\n")
					case "close_notify":
						_ = c.CloseWrite()
					case "cut":
						_ = c.NetConn().Close()
					default:
						_, _ = io.WriteString(c.NetConn(), "garbage garbage")
					}
					close(spoilt)
					_, _ = c.Read(make([]byte, 1))
				})
				tr := newTransport(t, Config{TLS: cfg})
				must(t, tr, newRequest(t, "POST", url, "x"))
				close(spoil)
				<-spoilt
				time.Sleep(20 * time.Millisecond)
				if _, _, info := must(t, tr, newRequest(t, "POST", url, "x")); info.Reused {
					t.Error("reused")
				}
				if st := tr.Stats(); st.Stale != 1 || st.Dialled != 2 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// TestTLSDataWithAnswer: more than the answer comes in the same packet, so that
// it lies in crypto/tls, decrypted or not, and not in the socket. Were it a
// packet of its own, it could come after the next request was written, and no
// client could tell it from that request's answer.
func TestTLSDataWithAnswer(t *testing.T) {
	answer := okHead + "Content-Length: 5000\r\n\r\n" + strings.Repeat("x", 5000)
	forged := okHead + "Content-Length: 6\r\n\r\nforged"
	for name, records := range map[string][]string{"one record": {answer + forged}, "two records": {answer, forged}} {
		t.Run(name, func(t *testing.T) {
			versions(t, func(t *testing.T, version uint16) {
				cert, pool := certificate(t)
				s := rawServer(t, func(c net.Conn) {
					packet := &onePacket{Conn: c}
					tc := tls.Server(packet, &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: version, DynamicRecordSizingDisabled: true})
					for {
						if _, _, err := readRequest(tc); err != nil {
							return
						}
						packet.hold()
						for _, r := range records {
							_, _ = io.WriteString(tc, r)
						}
						packet.send()
					}
				})
				tr := newTransport(t, Config{TLS: &tls.Config{RootCAs: pool}})
				for range 20 {
					_, body, _ := must(t, tr, newRequest(t, "POST", "https://"+s.Addr().String(), "x"))
					if len(body) != 5000 {
						t.Fatalf("%.20q", body)
					}
				}
				if st := tr.Stats(); st.Dialled != 20 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// onePacket gathers what is written between hold and send into one write.
type onePacket struct {
	net.Conn
	held []byte
	on   bool
}

func (p *onePacket) hold() { p.on = true }

func (p *onePacket) send() {
	p.on = false
	_, _ = p.Conn.Write(p.held)
	p.held = p.held[:0]
}

func (p *onePacket) Write(b []byte) (int, error) {
	if p.on {
		p.held = append(p.held, b...)
		return len(b), nil
	}
	return p.Conn.Write(b)
}

// TestTLSCut: EOF within a body is an error with and without close_notify.
func TestTLSCut(t *testing.T) {
	for _, answer := range []string{okHead + "Content-Length: 5\r\n\r\nhel", okHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"} {
		for _, polite := range []bool{true, false} {
			url, cfg := tlsServer(t, tls.VersionTLS13, func(c *tls.Conn) {
				_, _, _ = readRequest(c)
				_, _ = io.WriteString(c, answer)
				if polite {
					c.Close()
				}
			})
			tr := newTransport(t, Config{TLS: cfg})
			o, err := observe(tr, newRequest(t, "GET", url, ""))
			if o.Failed || !o.BodyFail || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%+v, %v", o, err)
			}
		}
	}
}

func TestTLSHandshake(t *testing.T) {
	t.Run("timeout", func(t *testing.T) {
		s := rawServer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		tr := newTransport(t, Config{HandshakeTimeout: 30 * time.Millisecond})
		_, err := tr.roundTrip(newRequest(t, "GET", "https://"+s.Addr().String(), ""), nil)
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() || err != errHandshake {
			t.Errorf("%v", err)
		}
	})
	t.Run("unknown authority", func(t *testing.T) {
		url, _ := tlsServer(t, tls.VersionTLS13, func(*tls.Conn) {})
		var info Info
		_, err := newTransport(t, Config{}).roundTrip(newRequest(t, "GET", url, ""), &info)
		var ce *tls.CertificateVerificationError
		if !errors.As(err, &ce) || info.Wrote {
			t.Errorf("%v, %+v", err, info)
		}
	})
	t.Run("h2 is not offered", func(t *testing.T) {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Proto+" "+r.TLS.ServerName)
		}))
		s.EnableHTTP2 = true
		s.StartTLS()
		defer s.Close()
		pool := x509.NewCertPool()
		pool.AddCert(s.Certificate())
		tr := newTransport(t, Config{TLS: &tls.Config{RootCAs: pool}, Dial: dialAt(s.Listener.Addr().String())})
		_, body, _ := must(t, tr, newRequest(t, "GET", "https://example.com/", ""))
		if body != "HTTP/1.1 example.com" {
			t.Errorf("%q", body)
		}
	})
}

// TestTLSUploadCancelled: a peer that does not read can't hold up the close.
func TestTLSUploadCancelled(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	url, cfg := tlsServer(t, tls.VersionTLS13, func(*tls.Conn) { <-hold })
	tr := newTransport(t, Config{TLS: cfg})
	req, cancel := withCancel(t, newRequest(t, "POST", url, strings.Repeat("x", 64<<20)))
	time.AfterFunc(100*time.Millisecond, cancel)
	begin := time.Now()
	if _, err := tr.roundTrip(req, nil); err == nil {
		t.Error("no error")
	}
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
}
