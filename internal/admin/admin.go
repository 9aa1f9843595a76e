// Package admin serves operators: health checks, metrics, profiles, and the
// admin API with the running configuration, the recent requests and the
// totals. It shows what it is handed and decides nothing; app builds it.
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

	"github.com/headgate-ai/headgate/internal/journal"
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
}

// Handler serves the admin listener.
func Handler(g Gateway) http.Handler {
	mux := http.NewServeMux()
	Health(mux, g.Ready)
	mux.Handle("GET /metrics", g.Journal.Handler())
	closed := http.NewServeMux()
	closed.HandleFunc("GET /admin/v1/config", g.config)
	closed.HandleFunc("POST /admin/v1/reload", g.reload)
	closed.HandleFunc("GET /admin/v1/requests", g.requests)
	closed.HandleFunc("GET /admin/v1/requests/{id}", g.request)
	closed.HandleFunc("GET /admin/v1/usage", g.usage)
	closed.HandleFunc("/debug/pprof/", pprof.Index)
	closed.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	closed.HandleFunc("/debug/pprof/profile", pprof.Profile)
	closed.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	closed.HandleFunc("/debug/pprof/trace", pprof.Trace)
	closed.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "there is nothing at this path")
	})
	guarded := g.guard(closed)
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
func (g Gateway) guard(next http.Handler) http.Handler {
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

func (g Gateway) config(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, g.Config())
}

func (g Gateway) reload(w http.ResponseWriter, r *http.Request) {
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

func (g Gateway) requests(w http.ResponseWriter, r *http.Request) {
	limit := defaultLimit
	if v := r.URL.Query().Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxLimit {
			fail(w, http.StatusBadRequest, "limit must be a whole number from 1 to "+strconv.Itoa(maxLimit))
			return
		}
		limit = n
	}
	write(w, http.StatusOK, map[string]any{"requests": g.Journal.Recent(limit)})
}

func (g Gateway) request(w http.ResponseWriter, r *http.Request) {
	view, ok := g.Journal.Find(r.PathValue("id"))
	if !ok {
		fail(w, http.StatusNotFound, "no request with this id is among the recent ones")
		return
	}
	write(w, http.StatusOK, view)
}

func (g Gateway) usage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for name := range q {
		if name != "model" && name != "key" && name != "tenant" {
			fail(w, http.StatusBadRequest, "unknown parameter; usage takes model, key and tenant")
			return
		}
	}
	write(w, http.StatusOK, g.Journal.Totals(q.Get("model"), q.Get("key"), q.Get("tenant")))
}

func fail(w http.ResponseWriter, status int, message string) {
	write(w, status, map[string]any{"error": map[string]string{"message": message}})
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
