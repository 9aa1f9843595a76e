// Package app builds the rooms, compiles configurations into snapshots, and
// runs and stops everything. Read it as one list: New opens what lives as long
// as the process, Load makes the first configuration, Run serves until told to
// stop, and what was opened is closed in the opposite order. cli uses it.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/admin"
	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/decode"
	"github.com/headgate-ai/headgate/internal/config/source"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/gateway"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/upstream"
)

// Options are what the command line decides.
type Options struct {
	Source          source.Source
	Version, Commit string
	// LogFormat overrides the configuration's, "" leaves it.
	LogFormat string
	// LogOutput replaces standard error, for tests.
	LogOutput io.Writer
	// Level is the least level of the gateway's own messages.
	Level slog.Leveler
}

// App is a gateway that runs.
type App struct {
	opts    Options
	journal *journal.Room
	gateway *gateway.Gateway
	sims    simulators
	log     *slog.Logger
	audit   *admin.Audit
	keys    *KeyRing // nil where the gateway mints none

	keyWatch keyWatch
	adapter  *adapter

	api            apiServer
	stdConns       atomic.Int64 // open connections of clients, where net/http serves
	admin          *http.Server
	apiL, adminL   net.Listener
	end            context.CancelCauseFunc // ends the requests that outlast the grace
	serving        atomic.Bool
	certificate    atomic.Pointer[tls.Certificate]
	adminToken     atomic.Pointer[string]
	reloading      sync.Mutex
	state          atomic.Pointer[state]
	started        sync.WaitGroup
	backgroundDone context.CancelFunc
}

// state is what the admin API shows of the configuration.
type state struct {
	running  *config.Loaded
	at       time.Time
	rejected *admin.Rejected
}

// New loads the first configuration and opens the listeners; from then on
// clients are queued. A configuration with mistakes is an error of type
// decode.Mistakes.
func New(ctx context.Context, o Options) (_ *App, err error) {
	tuneMemory()
	loaded, err := load(ctx, o.Source)
	if err != nil {
		return nil, err
	}
	a := &App{opts: o}
	defer func() {
		if err != nil {
			a.close(context.WithoutCancel(ctx))
		}
	}()
	cfg := loaded.Journal
	if o.LogFormat != "" {
		cfg.Log.Format = o.LogFormat
	}
	if a.journal, err = journal.New(journal.Options{Config: cfg, Version: o.Version, Commit: o.Commit, Level: o.Level, Output: o.LogOutput}); err != nil {
		return nil, err
	}
	a.log = a.journal.Logger()
	a.gateway = &gateway.Gateway{Authn: authn.New(), Quota: quota.New(), Upstream: upstream.New(), Journal: a.journal}
	a.adapter = a.newAdapter()
	if err = a.openAudit(loaded); err != nil {
		return nil, err
	}
	if err = a.openKeys(loaded); err != nil {
		return nil, err
	}
	if a.gateway.Ledger, err = a.openLedger(ctx, loaded.LedgerConfig()); err != nil {
		return nil, err
	}
	if err = a.shareCounts(loaded.Quota.Store); err != nil {
		return nil, err
	}
	if mistakes := a.apply(loaded); len(mistakes) > 0 {
		return nil, mistakes
	}
	if err = a.restore(ctx); err != nil {
		return nil, err
	}
	if err = a.journal.Registry().Register(newCollector(a)); err != nil {
		return nil, err
	}
	if err = a.listen(loaded.File); err != nil {
		return nil, err
	}
	debug.FreeOSMemory() // what decoding the configuration took is not needed again
	dropStartPages()
	return a, nil
}

func load(ctx context.Context, s source.Source) (*config.Loaded, error) {
	doc, err := s.Get(ctx)
	if err != nil {
		return nil, err
	}
	loaded, mistakes := config.Load(doc)
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return loaded, nil
}

// listen opens both listeners and prepares their servers.
func (a *App) listen(f *config.File) (err error) {
	base, end := context.WithCancelCause(context.Background())
	a.end = end
	if a.apiL, err = listen(f.Server.API.Listen, f.Stream.WriteTimeout.Std()); err != nil {
		return fmt.Errorf("cannot listen for clients (server.api.listen): %w", err)
	}
	if a.adminL, err = net.Listen("tcp", f.Server.Admin.Listen); err != nil {
		return fmt.Errorf("cannot listen for operators (server.admin.listen): %w", err)
	}
	if err = a.serveAPI(base, &f.Server.API); err != nil {
		return err
	}
	a.admin = &http.Server{
		Handler:           admin.Handler(a.operations()),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: a.serverLog(),
	}
	return nil
}

// API and Admin are the addresses that were opened.
func (a *App) API() string { return a.apiL.Addr().String() }

// Admin is the address of the operators' listener.
func (a *App) Admin() string { return a.adminL.Addr().String() }

// Ready is whether the gateway takes requests.
func (a *App) Ready() (bool, string) {
	if !a.serving.Load() {
		return false, "shutting down or not started"
	}
	return true, ""
}

// Run serves until ctx is done and then shuts down: it turns unready, stops
// accepting, lets open requests end within the grace, ends the rest in their
// dialect, and flushes the journal.
func (a *App) Run(ctx context.Context) error {
	failed := make(chan error, 2)
	serve := func(s apiServer, l net.Listener, name string) {
		defer a.started.Done()
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("the %s listener failed: %w", name, err)
		}
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.backgroundDone = stop
	a.started.Add(6)
	go serve(a.api, a.apiL, "api")
	go serve(a.admin, a.adminL, "admin")
	go a.watch(background)
	go a.sweep(background)
	go a.tend(background)
	go a.adapt(background)
	a.serving.Store(true)
	a.log.Info("serving", "api", a.API(), "admin", a.Admin(), "config", a.state.Load().running.Document.Name, "hash", a.state.Load().running.Document.Version)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	return errors.Join(err, a.shutdown())
}

// lastWords is how long the requests that outlast the grace have to tell their
// clients.
const lastWords = 5 * time.Second

func (a *App) shutdown() error {
	a.serving.Store(false)
	grace := a.state.Load().running.Server.API.ShutdownGrace.Std()
	a.log.Info("shutting down", "grace", grace.String())
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	err := a.api.Shutdown(ctx)
	cancel()
	if errors.Is(err, context.DeadlineExceeded) {
		a.log.Warn("ending the requests that outlasted the grace")
		a.end(&fault.Error{Kind: fault.Draining, Op: "app.Shutdown"})
		ctx, cancel = context.WithTimeout(context.Background(), lastWords)
		err = a.api.Shutdown(ctx)
		cancel()
	}
	_ = a.api.Close()
	_ = a.admin.Close()
	a.close(context.Background())
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("some requests did not end")
	}
	return err
}

// close gives back what New opened, last first.
func (a *App) close(ctx context.Context) {
	if a.backgroundDone != nil {
		a.backgroundDone()
	}
	for _, l := range []net.Listener{a.apiL, a.adminL} {
		if l != nil {
			_ = l.Close()
		}
	}
	a.started.Wait()
	a.sims.close()
	if a.gateway != nil {
		a.gateway.Upstream.Close()
		a.gateway.Authn.Close()
		a.unshareCounts()
		a.closeLedger(ctx)
	}
	if a.audit != nil {
		_ = a.audit.Close()
	}
	if a.end != nil {
		a.end(nil)
	}
	if a.journal != nil {
		ctx, cancel := context.WithTimeout(ctx, lastWords)
		defer cancel()
		_ = a.journal.Shutdown(ctx)
	}
}

// Mistakes gives the single mistakes of a configuration error, for printing.
func Mistakes(err error) (decode.Mistakes, bool) { return errors.AsType[decode.Mistakes](err) }
