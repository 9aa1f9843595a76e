package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/headgate-ai/headgate/internal/admin"
	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/decode"
	"github.com/headgate-ai/headgate/internal/gateway"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/setting"
)

// apply compiles a configuration and makes it the one for new requests.
// Everything that can fail happens before that; a failure changes nothing.
func (a *App) apply(l *config.Loaded) decode.Mistakes {
	var p setting.Problems
	snap, secrets := a.compile(l, &p)
	token := a.adminSecret(l, &p)
	cert := certificate(l, &p)
	if len(p) > 0 {
		return l.Place(p)
	}
	redactor := journal.NewRedactor(append(secrets, token))
	snap.Journal.Redactor = redactor
	a.journal.SetRedactor(redactor)
	a.adminToken.Store(&token)
	a.certificate.Store(cert)
	a.gateway.Adopt(snap)
	a.gateway.Authn.Adopt(&snap.Authn)
	a.gateway.Upstream.Keep(&snap.Upstream)
	a.sims.keep(l.Providers)
	a.state.Store(&state{running: l, at: time.Now()})
	a.journal.ConfigRunning(l.Document.Version)
	return nil
}

// compile makes every plan of one snapshot.
func (a *App) compile(l *config.Loaded, p *setting.Problems) (*gateway.Snapshot, []string) {
	snap := &gateway.Snapshot{Edge: l.Server.API.Compile(), Stream: l.Stream.Compile()}
	providers, err := a.sims.resolve(l.Providers)
	if err != nil {
		p.Add("providers", "the simulator cannot be started: %v", err)
		return nil, nil
	}
	var secrets, more []string
	snap.Authn, secrets = l.AuthnConfig().Compile(p)
	snap.Quota = a.gateway.Quota.Compile(l.QuotaConfig(), p)
	snap.Prices = l.Prices.Compile()
	snap.Upstream, more = a.gateway.Upstream.Compile(providers, p)
	snap.Route = l.RouteConfig().Compile()
	if snap.Journal, err = l.Journal.Compile(); err != nil {
		p.Add("journal", "%v", err)
	}
	return snap, append(secrets, more...)
}

func (a *App) adminSecret(l *config.Loaded, p *setting.Problems) string {
	token := l.Server.Admin.Token
	if token.IsZero() {
		return ""
	}
	value, err := token.Resolve()
	if err != nil {
		p.Add("server.admin.token", "%v", err)
	}
	return value
}

func certificate(l *config.Loaded, p *setting.Problems) *tls.Certificate {
	c := l.Server.API.TLS
	if !c.Enabled() {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		p.Add("server.api.tls.cert", "certificate and key cannot be used: %v", err)
		return nil
	}
	return &cert
}

// Reload loads the configuration again. A configuration with mistakes leaves
// the running one alone and is kept to be shown.
func (a *App) Reload(ctx context.Context) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	before := a.state.Load()
	doc, err := a.opts.Source.Get(ctx)
	if err != nil {
		return a.reject("", err)
	}
	loaded, mistakes := config.Load(doc)
	if len(mistakes) == 0 {
		a.pin(before.running, loaded)
		mistakes = a.apply(loaded)
	}
	if err := mistakes.Err(); err != nil {
		return a.reject(doc.Version, err)
	}
	a.recordReload(before.running, loaded)
	a.journal.Reloaded(true, doc.Version)
	a.log.Info("configuration loaded", "hash", doc.Version)
	return nil
}

// pin says what a reload cannot change: the addresses, which clients know,
// whether they speak TLS, and where operators' files lie.
func (a *App) pin(was, is *config.Loaded) {
	if was.Server.API.Listen != is.Server.API.Listen || was.Server.Admin.Listen != is.Server.Admin.Listen ||
		was.Server.API.TLS.Enabled() != is.Server.API.TLS.Enabled() {
		a.log.Warn("a changed listener takes effect at the next start", "api", is.Server.API.Listen, "admin", is.Server.Admin.Listen)
	}
	if was.Quota.Store != is.Quota.Store {
		a.log.Warn("a changed store of limits takes effect at the next start", "kind", is.Quota.Store.Default().Kind)
	}
	if was.Keystore != is.Keystore || was.Server.Admin.Audit != is.Server.Admin.Audit {
		a.log.Warn("a changed keystore or record of changes takes effect at the next start", "keystore", is.Keystore.Path, "audit", is.Server.Admin.Audit)
	}
}

func (a *App) reject(hash string, err error) error {
	was := *a.state.Load()
	r := &admin.Rejected{Hash: hash, At: time.Now().UTC().Format(time.RFC3339Nano)}
	if mistakes, ok := Mistakes(err); ok {
		for _, m := range mistakes {
			r.Errors = append(r.Errors, m.String())
		}
	} else {
		r.Errors = []string{err.Error()}
	}
	was.rejected = r
	a.state.Store(&was)
	a.journal.Reloaded(false, was.running.Document.Version)
	a.log.Error("configuration rejected; the running one stays", "hash", hash, "errors", r.Errors)
	return err
}

// reloadNow is Reload for the admin API.
func (a *App) reloadNow(ctx context.Context) (hash string, mistakes []string) {
	err := a.Reload(ctx)
	s := a.state.Load()
	if err != nil && s.rejected != nil {
		return s.running.Document.Version, s.rejected.Errors
	}
	return s.running.Document.Version, nil
}

func (a *App) status() admin.Status {
	s := a.state.Load()
	return admin.Status{
		Hash: s.running.Document.Version, Source: s.running.Document.Name,
		LoadedAt: s.at.UTC().Format(time.RFC3339Nano), Config: s.running.View(), Rejected: s.rejected,
	}
}

// watch reloads whenever the source says that the document has changed.
func (a *App) watch(ctx context.Context) {
	defer a.started.Done()
	err := a.opts.Source.Watch(ctx, func() { _ = a.Reload(ctx) }) // Reload reports its own failures
	if err != nil && ctx.Err() == nil {
		a.log.Error("the configuration is not watched any more; reload by SIGHUP", "error", fmt.Sprint(err))
	}
}

// SecretFiles are the files beside the document that belong to the running
// configuration.
func (a *App) SecretFiles() []string {
	if s := a.state.Load(); s != nil {
		return s.running.SecretFiles()
	}
	return nil
}

// Hangup is SIGHUP: it opens the log anew, after rotation, and reloads.
func (a *App) Hangup(ctx context.Context) {
	if err := a.journal.Reopen(); err != nil {
		a.log.Error("the log cannot be opened anew", "error", err.Error())
	}
	_ = a.Reload(ctx)
}
