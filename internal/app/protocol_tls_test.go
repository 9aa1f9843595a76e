package app_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// certificate writes a self-signed one into dir, over the one that is there.
func certificate(t *testing.T, dir, name string) (pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

// secure is the listener's configuration for the certificate in dir.
func secure(dir, more string) string {
	return fmt.Sprintf("tls: {cert: %q, key: %q%s}", filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), more)
}

// shake makes one connection with one request, and says what it was like. The
// request is what lets a client of TLS 1.3 see its ticket.
func shake(t *testing.T, g *Gateway, c *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	conn, err := tls.Dial("tcp", g.API(), c)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return conn.ConnectionState(), err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return conn.ConnectionState(), nil
}

// A3: versions, protocols and resumption.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir, "first")
	g := start(t, setup{API: secure(dir, "")})
	for _, c := range []struct {
		version uint16
		fine    bool
	}{{tls.VersionTLS10, false}, {tls.VersionTLS11, false}, {tls.VersionTLS12, false}, {tls.VersionTLS13, true}} {
		s, err := shake(t, g, &tls.Config{RootCAs: pool, MinVersion: c.version, MaxVersion: c.version})
		if (err == nil) != c.fine || c.fine && s.Version != c.version {
			t.Errorf("%s: %v", tls.VersionName(c.version), err)
		}
	}
	for offered, want := range map[string]string{"h2,http/1.1": "h2", "http/1.1": "http/1.1", "": ""} {
		c := &tls.Config{RootCAs: pool}
		if offered != "" {
			c.NextProtos = strings.Split(offered, ",")
		}
		conn, err := tls.Dial("tcp", g.API(), c)
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != want {
			t.Errorf("offered %q: %q", offered, got)
		}
		_ = conn.Close()
	}
	f, settings := dial(t, g.API(), &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}})
	if n := settings[http2.SettingMaxConcurrentStreams]; n != 200 {
		t.Errorf("SETTINGS_MAX_CONCURRENT_STREAMS over TLS is %d", n)
	}
	id, _ := f.call(chatBody)
	for {
		frame, err := f.f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.StreamID == id {
			if h.PseudoValue("status") != "200" {
				t.Errorf("a call over HTTP/2 with TLS: %s", h.PseudoValue("status"))
			}
			break
		}
	}
	_ = f.conn.Close()

	// Plain text on the TLS port gets nothing of the API.
	if res, err := http.Get("http://" + g.API() + "/livez"); err == nil {
		if res.StatusCode == 200 {
			t.Error("plain text was answered")
		}
		_ = res.Body.Close()
	}
	before := g.metric("headgate_tls_resumed_total")
	c := &tls.Config{RootCAs: pool, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	resumed := 0
	for i := range 100 {
		s, err := shake(t, g, c)
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 && !s.DidResume {
			t.Error("the second connection does not resume the first")
		}
		if s.DidResume {
			resumed++
		}
	}
	if resumed < 90 {
		t.Errorf("%d of 100 connections were resumed", resumed)
	}
	if n := g.metric("headgate_tls_resumed_total") - before; n != float64(resumed) {
		t.Errorf("headgate_tls_resumed_total counts %v of %d", n, resumed)
	}

	// A renewed certificate is taken up by a reload; a broken one is not.
	renewed := certificate(t, dir, "second")
	if err := g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := shake(t, g, &tls.Config{RootCAs: renewed}); err != nil || s.PeerCertificates[0].Subject.CommonName != "second" {
		t.Errorf("after the renewal: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "server.api.tls.cert") {
		t.Errorf("a broken certificate: %v", err)
	}
	if _, err := shake(t, g, &tls.Config{RootCAs: renewed}); err != nil {
		t.Errorf("after a broken renewal: %v", err)
	}
}

// Replicas with the same ticket keys resume each other's sessions, others do
// not.
func TestTicketKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir, "shared")
	same := secure(dir, `, ticket_keys: "literal:`+strings.Repeat("k", 32)+`"`)
	a, b := start(t, setup{API: same}), start(t, setup{API: same})
	stranger := start(t, setup{API: secure(dir, `, ticket_keys: "literal:`+strings.Repeat("z", 32)+`"`)})
	c := &tls.Config{RootCAs: pool, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	for i, g := range []*Gateway{a, b, stranger} {
		s, err := shake(t, g, c)
		if err != nil || s.DidResume != (i == 1) {
			t.Errorf("connection %d: resumed %v, %v", i, s.DidResume, err)
		}
	}
}

// TLS 1.2 is served where that is asked for, and is never renegotiated.
func TestRenegotiation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir, "old")
	g := start(t, setup{API: secure(dir, `, min_version: "1.2"`)})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: version, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
		for i := range 2 {
			if s, err := shake(t, g, c); err != nil || s.Version != version || s.DidResume != (i == 1) {
				t.Errorf("%s, connection %d: resumed %v, %v", tls.VersionName(version), i, s.DidResume, err)
			}
		}
	}
	if _, err := shake(t, g, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 was served")
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("no openssl to renegotiate with")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "openssl", "s_client", "-connect", g.API(), "-tls1_2", "-legacy_server_connect")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	seen := &logBuffer{}
	cmd.Stdout, cmd.Stderr = seen, seen
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait(t, "openssl to connect", func() bool { return strings.Contains(seen.String(), "Verify return code") })
	_, _ = io.WriteString(in, "R\n")
	err = cmd.Wait()
	_ = in.Close()
	text := seen.String()
	if err == nil || !strings.Contains(text, "RENEGOTIATING") || !strings.Contains(text, "no renegotiation") && !strings.Contains(text, "unexpected message") && !strings.Contains(text, "handshake failure") {
		t.Errorf("%v\n%s", err, text[max(0, len(text)-600):])
	}
	if n := strings.Count(text, "New, TLSv1.2"); n > 1 {
		t.Errorf("%d handshakes", n)
	}
}
