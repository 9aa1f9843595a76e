package h1

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net"
	"strings"
	"testing"
	"time"
)

// TestTLSLateTicket: a session ticket that comes while the connection is idle
// does not make it stale. crypto/tls has no call to send one then, so the test
// seals the record by hand (RFC 8446, sections 4.6.1 and 5.2).
func TestTLSLateTicket(t *testing.T) {
	cert, pool := certificate(t)
	var keys bytes.Buffer
	late, sent := make(chan []byte), make(chan struct{})
	s := rawServer(t, func(c net.Conn) {
		tc := tls.Server(c, &tls.Config{
			Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, KeyLogWriter: &keys,
		})
		if tc.Handshake() != nil {
			return
		}
		if _, _, err := readRequest(tc); err != nil {
			return
		}
		_, _ = tc.Write([]byte(short))
		for b := range late {
			_, _ = c.Write(b)
			sent <- struct{}{}
		}
	})
	tr := newTransport(t, Config{TLS: &tls.Config{RootCAs: pool}})
	resp, _, _ := must(t, tr, newRequest(t, "POST", "https://"+s.Addr().String(), "x"))
	if resp.TLS.CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("not for %s", tls.CipherSuiteName(resp.TLS.CipherSuite))
	}
	_, secret, ok := strings.Cut(keys.String(), "SERVER_TRAFFIC_SECRET_0 ")
	if !ok {
		t.Fatalf("no secret in %q", keys.String())
	}
	secret, _, _ = strings.Cut(secret[65:], "\n")
	raw, err := hex.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	var c *conn
	for _, h := range tr.hosts {
		c = h.idle[0]
	}
	// The server has sent a ticket and the answer under this secret.
	record := seal(t, raw, 2, ticket, 22)
	late <- record[:7] // in pieces, asked between
	<-sent
	for i, rest := range [][]byte{record[7:], seal(t, raw, 3, ticket, 22)} {
		time.Sleep(10 * time.Millisecond)
		if !c.alive() {
			t.Fatalf("stale after piece %d", i)
		}
		late <- rest
		<-sent
	}
	time.Sleep(10 * time.Millisecond)
	if !c.alive() {
		t.Fatal("stale after tickets")
	}
	c.wire.now = true
	if n, err := c.wire.Read(make([]byte, 10)); n != 0 || err != errNothing {
		t.Errorf("%d bytes of the tickets were not read, %v", n, err)
	}
	c.wire.now = false
	late <- seal(t, raw, 4, []byte("data"), 23)
	<-sent
	time.Sleep(10 * time.Millisecond)
	if c.alive() {
		t.Error("alive after data")
	}
	close(late)
}

// ticket is a NewSessionTicket.
var ticket = []byte("\x04\x00\x00\x12" + "\x00\x00\x1c\x20" + "\x00\x00\x00\x01" + "\x01n" + "\x00\x04abcd" + "\x00\x00")

// seal makes a record of TLS_AES_128_GCM_SHA256.
func seal(t *testing.T, secret []byte, seq byte, msg []byte, kind byte) []byte {
	label := func(name string, n int) []byte {
		info := string([]byte{0, byte(n), byte(len("tls13 " + name))}) + "tls13 " + name + "\x00"
		k, err := hkdf.Expand(sha256.New, secret, info, n)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	block, err := aes.NewCipher(label("key", 16))
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := label("iv", 12)
	nonce[11] ^= seq
	inner := append(bytes.Clone(msg), kind)
	head := []byte{23, 3, 3, 0, byte(len(inner) + gcm.Overhead())}
	return gcm.Seal(bytes.Clone(head), nonce, inner, head)
}
