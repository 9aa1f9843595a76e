// Package bare is the net/http server with which scripts/h2spec.sh compares the
// gateway.
//
// Who should import this: lab/h2spec, which is its command.
package bare

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
)

// Serve writes a certificate and its key to two files, prints two ports, and
// serves HTTP/2 on the first with prior knowledge and on the second over TLS.
// It returns when serving has failed.
func Serve(out io.Writer, certFile, keyFile string) error {
	if err := writeCertificate(certFile, keyFile); err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols: &protocols, ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ready") }),
	}
	ended := make(chan error, 2)
	for _, secure := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Fprintln(out, l.Addr().(*net.TCPAddr).Port)
		go func() {
			if secure {
				ended <- server.ServeTLS(l, certFile, keyFile)
				return
			}
			ended <- server.Serve(l)
		}()
	}
	return <-ended
}
