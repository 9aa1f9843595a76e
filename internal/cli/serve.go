package cli

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/source"
	"github.com/headgate-ai/headgate/internal/config/source/file"
	"github.com/headgate-ai/headgate/internal/config/source/static"
)

// defaultFile is read where no other is named.
const defaultFile = "headgate.yaml"

// logFlags are those of every command that runs a gateway.
type logFlags struct {
	LogFormat string `help:"Form of the log on standard error: json or text." enum:"json,text," default:""`
	LogLevel  string `help:"Least level of the gateway's own messages: debug, info, warn or error." enum:"debug,info,warn,error" default:"info"`
}

func (f *logFlags) level() slog.Level {
	var l slog.Level
	_ = l.UnmarshalText([]byte(f.LogLevel)) // kong has checked it
	return l
}

type serveCmd struct {
	Config string `help:"Configuration file. Without it: $HEADGATE_CONFIG, else ./headgate.yaml, else the environment." placeholder:"FILE"`
	logFlags
}

// Help is the rest of the command's manual.
func (serveCmd) Help() string {
	return `Without a file, the environment is the configuration: OPENAI_API_KEY and ANTHROPIC_API_KEY (with OPENAI_BASE_URL and
ANTHROPIC_BASE_URL) name the providers, HEADGATE_LISTEN and HEADGATE_ADMIN_LISTEN the addresses, HEADGATE_API_KEY the
clients' key. SIGHUP loads the configuration again; so does a change of the file.

Examples:
  headgate serve --config headgate.yaml
  OPENAI_API_KEY=sk-... headgate serve`
}

// Run serves until stopped.
func (c *serveCmd) Run(ctx context.Context, env *Env) error {
	var a *app.App
	src, err := c.source(env, func() []string {
		if a == nil {
			return nil
		}
		return a.SecretFiles()
	})
	if err != nil {
		return err
	}
	a, err = start(ctx, env, src, &c.logFlags)
	if err != nil {
		return err
	}
	return run(ctx, a)
}

func (c *serveCmd) source(env *Env, also func() []string) (source.Source, error) {
	path := c.Config
	if path == "" {
		path = env.Getenv("HEADGATE_CONFIG")
	}
	if path == "" {
		if _, err := os.Stat(defaultFile); err == nil {
			path = defaultFile
		}
	}
	if path != "" {
		return file.New(path, also), nil
	}
	doc, ok := config.FromEnv(env.Getenv)
	if !ok {
		return nil, fmt.Errorf("there is nothing to serve: name a file with --config, put ./%s in place, or set one of %s; headgate demo needs none of them", defaultFile, config.EnvNames)
	}
	return static.New(doc.Name, doc.Data), nil
}

// start builds the gateway and prints a configuration's mistakes, one a line.
func start(ctx context.Context, env *Env, src source.Source, f *logFlags) (*app.App, error) {
	a, err := app.New(ctx, app.Options{Source: src, Version: Version, Commit: commit(), LogFormat: f.LogFormat, LogOutput: nil, Level: f.level()})
	if mistakes, ok := app.Mistakes(err); ok {
		for _, m := range mistakes {
			fmt.Fprintln(env.Stderr, m)
		}
		return nil, errReported
	}
	return a, err
}

// run serves until SIGINT or SIGTERM; SIGHUP reloads.
func run(ctx context.Context, a *app.App) error {
	log.SetFlags(0)
	log.SetOutput(a.StandardLog())
	ctx, stop := untilStopped(ctx)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangups:
				a.Hangup(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	err := a.Run(ctx)
	stop()
	<-ended
	return err
}
