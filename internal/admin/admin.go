// Package admin serves operators: health checks, metrics, profiles, and the
// admin API, which shows the running configuration, the recent requests, what
// was used, the limits and the keys, and takes operators' changes. It keeps the
// record of those changes, and has the grave ones confirmed. What a change does
// is decided in the rooms that it is handed; app builds it.
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/headgate-ai/headgate/internal/authn/confirm"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/upstream"
)

// Status is the state of the configuration, as GET /admin/v1/config shows it.
type Status struct {
	Hash     string    `json:"hash"`
	Source   string    `json:"source"`
	LoadedAt string    `json:"loaded_at"`
	Config   any       `json:"config"`
	Rejected *Rejected `json:"rejected"`
}

// Rejected is a configuration that could not be used, and why.
type Rejected struct {
	Hash   string   `json:"hash"`
	At     string   `json:"at"`
	Errors []string `json:"errors"`
}

// Gateway is what the pages show and do.
type Gateway struct {
	Journal *journal.Room
	// Ready is whether the gateway takes requests; the reason says why not.
	Ready func() (ok bool, reason string)
	// Config is the state of the configuration.
	Config func() Status
	// Reload loads the configuration again, and returns the mistakes in it.
	Reload func(context.Context) (hash string, mistakes []string)
	// Token is the current admin token, "" where none is needed.
	Token func() string
	// Audit is where changes are recorded.
	Audit *Audit
	// Keys are the keys that the gateway minted; nil where it keeps none.
	Keys Keys
	// Quota keeps the limits of the plan that is running.
	Quota *quota.Room
	Plan  func() *quota.Plan
	// Upstream are the providers of the plan that is running.
	Upstream func() *upstream.Plan
	// Usage and Entries read the ledger; nil where none is kept.
	Usage   Usage
	Entries Entries
	// Models are the configured names that calls are known by.
	Models func() []string
	// Degradation is how far the gateway is turned down.
	Degradation Degradation
}

// server is the admin API of one listener.
type server struct {
	Gateway
	book confirm.Book
	// setting is held while a limit is changed and the change recorded, so that
	// the record has the order of the changes.
	setting sync.Mutex
}

// Handler serves the admin listener.
func Handler(gateway Gateway) http.Handler {
	g := &server{Gateway: gateway}
	mux := http.NewServeMux()
	Health(mux, g.Ready)
	mux.Handle("GET /metrics", g.Journal.Handler())
	closed := http.NewServeMux()
	closed.HandleFunc("GET /admin/v1/config", g.config)
	closed.HandleFunc("POST /admin/v1/reload", g.reload)
	closed.HandleFunc("GET /admin/v1/requests", g.requests)
	closed.HandleFunc("GET /admin/v1/requests/{id}", g.request)
	closed.HandleFunc("GET /admin/v1/usage", g.usage)
	closed.HandleFunc("GET /admin/v1/usage/entries", g.entries)
	closed.HandleFunc("GET /admin/v1/audit", g.audit)
	closed.HandleFunc("GET /admin/v1/keys", g.listKeys)
	closed.HandleFunc("POST /admin/v1/keys", g.createKey)
	closed.HandleFunc("POST /admin/v1/keys/{id}/rotate", g.rotateKey)
	closed.HandleFunc("DELETE /admin/v1/keys/{id}", g.revokeKey)
	closed.HandleFunc("GET /admin/v1/limits", g.limits)
	closed.HandleFunc("PUT /admin/v1/limits/{rule}", g.setLimit)
	closed.HandleFunc("DELETE /admin/v1/limits/{rule}", g.resetLimit)
	closed.HandleFunc("GET /admin/v1/providers", g.providers)
	closed.HandleFunc("GET /admin/v1/degrade", g.degradation)
	closed.HandleFunc("POST /admin/v1/degrade", g.degrade)
	closed.HandleFunc("GET /admin/v1/metrics-window", g.window)
	closed.HandleFunc("GET /admin/metrics-window", g.window)
	closed.HandleFunc("/debug/pprof/", pprof.Index)
	closed.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	closed.HandleFunc("/debug/pprof/profile", pprof.Profile)
	closed.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	closed.HandleFunc("/debug/pprof/trace", pprof.Trace)
	closed.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "there is nothing at this path")
	})
	// No page of another site may have a browser change anything here.
	guarded := http.NewCrossOriginProtection().Handler(g.guard(closed))
	mux.Handle("/admin/", guarded)
	mux.Handle("/debug/", guarded)
	return mux
}

// Health serves the health checks. None of them calls a model.
func Health(mux *http.ServeMux, ready func() (bool, string)) {
	alive := func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]string{"status": "alive"})
	}
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ok, reason := ready(); !ok {
			write(w, http.StatusServiceUnavailable, map[string]string{"status": "unready", "reason": reason})
			return
		}
		write(w, http.StatusOK, map[string]string{"status": "ready"})
	})
}

// guard lets operators in: by the token, or where there is none, from this
// machine only and under a name of this machine, so that no web page can reach
// it by a name that it made up.
func (g *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := g.Token(); token != "" {
			scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			if !strings.EqualFold(scheme, "Bearer") || !same(strings.TrimSpace(sent), token) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="headgate admin"`)
				fail(w, http.StatusUnauthorized, "this needs the admin token, as Authorization: Bearer …")
				return
			}
		} else if !local(r.RemoteAddr) || !local(r.Host) {
			fail(w, http.StatusForbidden, "without an admin token this is open to this machine only, as localhost or 127.0.0.1")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// same compares without telling how much was right.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func local(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

func (g *server) config(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, g.Config())
}

func (g *server) reload(w http.ResponseWriter, r *http.Request) {
	hash, mistakes := g.Reload(r.Context())
	if len(mistakes) > 0 {
		write(w, http.StatusUnprocessableEntity, map[string]any{"reloaded": false, "hash": hash, "errors": mistakes})
		return
	}
	write(w, http.StatusOK, map[string]any{"reloaded": true, "hash": hash})
}

const (
	defaultLimit = 50
	maxLimit     = 10_000
)

func (g *server) requests(w http.ResponseWriter, r *http.Request) {
	if limit, ok := number(w, r, "limit", defaultLimit, maxLimit); ok {
		write(w, http.StatusOK, map[string]any{"requests": g.Journal.Recent(limit)})
	}
}

// number is a parameter from 1 to most; where it is none the client is told.
func number(w http.ResponseWriter, r *http.Request, name string, otherwise, most int) (int, bool) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return otherwise, true
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		fail(w, http.StatusBadRequest, name+" must be a whole number from 1 to "+strconv.Itoa(most))
		return 0, false
	}
	return n, true
}

func (g *server) request(w http.ResponseWriter, r *http.Request) {
	view, ok := g.Journal.Find(r.PathValue("id"))
	if !ok {
		fail(w, http.StatusNotFound, "no request with this id is among the recent ones")
		return
	}
	write(w, http.StatusOK, view)
}

func (g *server) window(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, g.Journal.Window())
}

// codes are what errors are called for programs, by status.
var codes = map[int]string{
	http.StatusBadRequest: "INVALID_REQUEST", http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "FORBIDDEN",
	http.StatusNotFound: "NOT_FOUND", http.StatusConflict: "CONFLICT", http.StatusRequestEntityTooLarge: "REQUEST_TOO_LARGE",
	http.StatusUnsupportedMediaType: "UNSUPPORTED_MEDIA_TYPE", http.StatusUnprocessableEntity: "INVALID_VALUE",
	http.StatusInternalServerError: "INTERNAL", http.StatusServiceUnavailable: "UNAVAILABLE",
}

func fail(w http.ResponseWriter, status int, message string) {
	write(w, status, map[string]any{"error": map[string]string{"code": codes[status], "message": message}})
}

// write answers with JSON, as it is: the readers are tools, not pages.
func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client has gone; there is no one to tell
}
