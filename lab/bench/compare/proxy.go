package compare

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// bareProxy is what a Go gateway on the standard library costs before it does
// any work of its own. Bodies are read before they are sent on: given the
// client's own body, the transport loses some answers (golang/go#40747), and
// the baseline has to be right.
func bareProxy(upstream *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			// A body that is cut short fails by its Content-Length.
			b, _ := io.ReadAll(r.In.Body)
			r.Out.Body = io.NopCloser(bytes.NewReader(b))
		},
		Transport:     &http.Transport{MaxIdleConnsPerHost: 8192, IdleConnTimeout: 90 * time.Second, DisableCompression: true},
		FlushInterval: -1,
		BufferPool:    &copyBuffers{sync.Pool{New: func() any { b := make([]byte, 4<<10); return &b }}},
	}
}

type copyBuffers struct{ pool sync.Pool }

func (c *copyBuffers) Get() []byte  { return *c.pool.Get().(*[]byte) }
func (c *copyBuffers) Put(b []byte) { c.pool.Put(&b) }

func serveProxy(l net.Listener, upstream string) error {
	u, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: bareProxy(u), ReadHeaderTimeout: 10 * time.Second}
	return s.Serve(l)
}
