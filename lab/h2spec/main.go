// Command h2spec is the bare net/http server with which scripts/h2spec.sh
// compares the gateway. It writes a certificate and its key to the two files
// that are named, prints two ports, and serves HTTP/2 on the first with prior
// knowledge and on the second over TLS.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: h2spec CERTIFICATE KEY")
	}
	if err := writeCertificate(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
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
			log.Fatal(err)
		}
		fmt.Println(l.Addr().(*net.TCPAddr).Port)
		go func() {
			if secure {
				ended <- server.ServeTLS(l, os.Args[1], os.Args[2])
				return
			}
			ended <- server.Serve(l)
		}()
	}
	log.Fatal(<-ended)
}
