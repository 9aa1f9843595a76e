package h1

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

// TestRefused: nothing of these reaches the network, and the body is closed
// (pitfall 5 under Both: CR, LF and NUL).
func TestRefused(t *testing.T) {
	set := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header[k] = []string{v} } }
	for name, change := range map[string]func(*http.Request){
		"CR in a value":        set("X-A", "b\rc"),
		"LF in a value":        set("X-A", "b\nX-C: d"),
		"NUL in a value":       set("X-A", "b\x00"),
		"DEL in a value":       set("X-A", "b\x7f"),
		"LF in User-Agent":     set("User-Agent", "a\nb"),
		"LF in an unsent":      set("Content-Length", "a\nb"),
		"empty name":           set("", "b"),
		"blank in a name":      set("X A", "b"),
		"colon in a name":      set("X:A", "b"),
		"LF in a name":         set("X-A\n", "b"),
		"Expect":               set("Expect", "100-continue"),
		"expect":               set("expect", "100-continue"),
		"Upgrade":              set("Upgrade", "websocket"),
		"CONNECT":              func(r *http.Request) { r.Method = "CONNECT" },
		"method with blank":    func(r *http.Request) { r.Method = "GET /x HTTP/1.1\r\n" },
		"blank in Host":        func(r *http.Request) { r.Host = "a b" },
		"LF in Host":           func(r *http.Request) { r.Host = "a\r\nX: y" },
		"slash in Host":        func(r *http.Request) { r.Host = "a/b" },
		"IDN in Host":          func(r *http.Request) { r.Host = "bücher.example" },
		"no host":              func(r *http.Request) { r.URL.Host = "" },
		"no URL":               func(r *http.Request) { r.URL = nil },
		"no header":            func(r *http.Request) { r.Header = nil },
		"scheme":               func(r *http.Request) { r.URL.Scheme = "ftp" },
		"blank in query":       func(r *http.Request) { r.URL.RawQuery = "a b" },
		"LF in query":          func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1\r\nX: y" },
		"LF in opaque":         func(r *http.Request) { r.URL.Opaque = "//h/\r\n" },
		"trailer":              func(r *http.Request) { r.Trailer = http.Header{"X-A": nil} },
		"transfer encoding":    func(r *http.Request) { r.TransferEncoding = []string{"gzip"} },
		"length without body":  func(r *http.Request) { r.Body, r.ContentLength = nil, 5 },
		"length not of memory": func(r *http.Request) { r.ContentLength = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			tr := New(Config{Dial: dialTo(nil)})
			req := newRequest(t, "POST", "http://h.example/a?b", "body")
			m := req.Body.(*memory)
			if change(req); req.Body == nil {
				m.closes++
			}
			if _, err := tr.roundTrip(req, nil); !errors.Is(err, ErrRefused) || m.closes != 1 {
				t.Errorf("%v, closed %d times", err, m.closes)
			}
		})
	}
}

// TestSameRequest compares what is written with what net/http writes: request
// line, fields (in any order), and body.
func TestSameRequest(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"plain":           func(*http.Request) {},
		"path and query":  func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/ä b/c", "q=1&r=%20" },
		"raw path":        func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a/b", "/a%2Fb" },
		"empty query":     func(r *http.Request) { r.URL.ForceQuery = true },
		"no path":         func(r *http.Request) { r.URL.Path = "" },
		"opaque":          func(r *http.Request) { r.URL.Opaque = "//other/x%2f" },
		"host":            func(r *http.Request) { r.Host = "api.example:8443" },
		"zone":            func(r *http.Request) { r.Host = "[fe80::1%25en0]:80" },
		"no agent":        func(r *http.Request) { r.Header["User-Agent"] = nil },
		"agent":           func(r *http.Request) { r.Header.Set("User-Agent", "me/1") },
		"many values":     func(r *http.Request) { r.Header["X-A"] = []string{"1", " 2\t", ""} },
		"fields of ours":  func(r *http.Request) { r.Header.Set("Content-Length", "99"); r.Header.Set("Host", "x") },
		"more of ours":    func(r *http.Request) { r.Header.Set("Transfer-Encoding", "gzip"); r.Header.Set("Trailer", "x") },
		"close":           func(r *http.Request) { r.Close = true },
		"close by field":  func(r *http.Request) { r.Close = true; r.Header.Set("Connection", "close") },
		"POST":            func(r *http.Request) { r.Method = "POST" },
		"DELETE":          func(r *http.Request) { r.Method = "DELETE" },
		"no method":       func(r *http.Request) { r.Method = "" },
		"counted":         func(r *http.Request) { body(r, "hello", 5) },
		"not known":       func(r *http.Request) { body(r, "hello", -1) },
		"0 with a body":   func(r *http.Request) { body(r, "hello", 0) },
		"empty, unknown":  func(r *http.Request) { body(r, "", -1) },
		"forced chunked":  func(r *http.Request) { body(r, "hello", -1); r.TransferEncoding = []string{"chunked"} },
		"large, counted":  func(r *http.Request) { body(r, strings.Repeat("x", 100<<10), 100<<10) },
		"large, unknown":  func(r *http.Request) { body(r, strings.Repeat("x", 100<<10), -1) },
		"body with EOF":   func(r *http.Request) { body(r, "hello", -1); r.Body = io.NopCloser(dataErr{r.Body}) },
		"NoBody":          func(r *http.Request) { r.Method, r.Body = "PUT", http.NoBody },
		"non-ASCII value": func(r *http.Request) { r.Header.Set("X-A", "caf\xe9 ü") },
	} {
		t.Run(name, func(t *testing.T) {
			var seen [2]any
			for i := range seen {
				s := rawServer(t, func(c net.Conn) {
					seen[i] = dissect(c)
					_, _ = io.WriteString(c, "HTTP/1.1 204 x\r\nConnection: close\r\n\r\n")
				})
				req := newRequest(t, "GET", s.url(), "")
				req.URL.Path, req.Host = "/", "h.example"
				req.Header.Set("X-Test", "a")
				change(req)
				var rt http.RoundTripper = newTransport(t, Config{})
				if i == 1 {
					rt = &http.Transport{DisableCompression: true}
				}
				resp, err := rt.RoundTrip(req)
				if err != nil {
					t.Fatal(i, err)
				}
				resp.Body.Close()
				s.Close()
				<-s.done
			}
			if !reflect.DeepEqual(seen[0], seen[1]) {
				t.Errorf("\nours   %.600v\ntheirs %.600v", seen[0], seen[1])
			}
		})
	}
}

func body(r *http.Request, text string, length int64) {
	r.Method, r.Body, r.ContentLength = "POST", io.NopCloser(strings.NewReader(text)), length
}

// dataErr gives io.EOF with the data.
type dataErr struct{ r io.Reader }

func (d dataErr) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if err == nil {
		err = io.EOF
	}
	return n, err
}

// dissect reads a request as it is on the wire.
func dissect(c net.Conn) any {
	r := bufio.NewReader(c)
	line, _ := r.ReadString('\n')
	h, err := textproto.NewReader(r).ReadMIMEHeader()
	var b []byte
	switch {
	case h.Get("Transfer-Encoding") == "chunked":
		b = dechunk(r)
	case h.Get("Content-Length") != "":
		b = make([]byte, length("Content-Length: "+h.Get("Content-Length")+"\r\n"))
		_, err = io.ReadFull(r, b)
	}
	return []any{line, h, string(b), err}
}

func dechunk(r *bufio.Reader) []byte {
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(
		strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), r)), nil)
	if err != nil {
		return nil
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		b = append(b, err.Error()...)
	}
	return b
}

// TestOneWrite: a request in memory is one write up to 8 KiB.
func TestOneWrite(t *testing.T) {
	w := &writes{Conn: &scripted{rest: short, size: 1000}}
	tr := New(Config{Dial: dialTo(w), MaxIdle: -1})
	must(t, tr, newRequest(t, "POST", "http://h/", strings.Repeat("x", 5000)))
	if w.n != 1 {
		t.Errorf("%d writes", w.n)
	}
}

type writes struct {
	net.Conn
	n int
}

func (w *writes) Write(p []byte) (int, error) {
	w.n++
	return len(p), nil
}

// TestHopByHop: the Connection field stays, with close in it or not.
func TestHopByHop(t *testing.T) {
	s := rawServer(t, answering(okHead+"Connection: close, X-Private\r\nX-Private: 1\r\nContent-Length: 0\r\n\r\n"))
	resp, _, _ := must(t, newTransport(t, Config{}), newRequest(t, "GET", s.url(), ""))
	if got := resp.Header.Get("Connection"); got != "close, X-Private" || !resp.Close {
		t.Errorf("%q, %v", got, resp.Close)
	}
}

func TestAddress(t *testing.T) {
	for _, c := range [][4]string{
		{"http", "a.example", "a.example", "a.example:80"}, {"https", "a.example", "a.example", "a.example:443"},
		{"https", "a.example:1", "a.example", "a.example:1"}, {"http", "[::1]", "::1", "[::1]:80"},
		{"http", "[::1]:2", "::1", "[::1]:2"}, {"http", "127.0.0.1", "127.0.0.1", "127.0.0.1:80"},
	} {
		if name, addr := address(hostKey{c[0], c[1]}); name != c[2] || addr != c[3] {
			t.Errorf("%v: %q, %q", c, name, addr)
		}
	}
	if u := (&url.URL{Path: "*"}); string(appendTarget(nil, u)) != u.RequestURI() {
		t.Error("*")
	}
}

// lines are the fields of a test's call.
type lines [][2]string

func (l lines) AppendFields(b []byte) ([]byte, error) {
	var err error
	for _, f := range l {
		if b, err = AppendField(b, f[0], f[1]); err != nil {
			return b, err
		}
	}
	return b, nil
}

// A call that would be two, or lead out of its head, is refused before anything
// is written, and its connection is not used again.
func TestCallRefused(t *testing.T) {
	served := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served++
		_, _ = io.WriteString(w, r.RequestURI+" "+r.Header.Get("A"))
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	good := Call{Scheme: "http", Host: host, Method: "POST", Prefix: "/v1", Path: "/x?q=%20", Fields: lines{{"A", " b "}}}
	for name, change := range map[string]func(*Call){
		"scheme": func(q *Call) { q.Scheme = "ftp" },
		"host":   func(q *Call) { q.Host = "a b" },
		"method": func(q *Call) { q.Method = "POST /" },
		"path":   func(q *Call) { q.Path = "/x HTTP/1.1\r\nA: b" },
		"prefix": func(q *Call) { q.Prefix = "/ " },
		"name":   func(q *Call) { q.Fields = lines{{"A: b\r\nC", "d"}} },
		"value":  func(q *Call) { q.Fields = lines{{"A", "b\r\nC: secret"}} },
	} {
		q := good
		change(&q)
		tr := newTransport(t, Config{})
		if _, err := tr.Send(t.Context(), &q, &Info{}); !errors.Is(err, ErrRefused) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		if n := tr.Stats().Open; n != 0 {
			t.Errorf("%s: %d connections are left", name, n)
		}
	}
	if served != 0 {
		t.Errorf("%d calls were served", served)
	}
	resp, err := newTransport(t, Config{}).Send(t.Context(), &good, &Info{})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "/v1/x?q=%20 b" {
		t.Errorf("%q, %v", b, err)
	}
}
