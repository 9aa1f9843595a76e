package app

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/upstream"
	"github.com/headgate-ai/headgate/lab/fake"
)

// simulators are the built-in models: for every provider of the dialect
// simulator without an address, a server on loopback. They are real servers,
// so that what is seen with them is what is seen with any other.
type simulators struct {
	mu       sync.Mutex
	running  map[string]*simulator
	retiring []*simulator
	serving  sync.WaitGroup
}

type simulator struct {
	model  *fake.Server
	server *http.Server
	url    string
}

// resolve gives the providers with the addresses of their simulators filled in,
// starting those that do not run yet.
func (s *simulators) resolve(list []upstream.ProviderConfig) ([]upstream.ProviderConfig, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list = slices.Clone(list)
	for i := range list {
		c := &list[i]
		if c.Dialect != llm.Simulator || c.BaseURL != "" {
			continue
		}
		sim, err := s.start(c.Name, c.Simulator)
		if err != nil {
			return nil, err
		}
		c.BaseURL = sim.url
	}
	return list, nil
}

func (s *simulators) start(name string, cfg fake.Config) (*simulator, error) {
	if sim := s.running[name]; sim != nil {
		sim.model.Configure(cfg)
		return sim, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	model := fake.New(cfg)
	sim := &simulator{model, &http.Server{Handler: model, ReadHeaderTimeout: 10 * time.Second}, "http://" + l.Addr().String()}
	s.serving.Go(func() { _ = sim.server.Serve(l) })
	if s.running == nil {
		s.running = map[string]*simulator{}
	}
	s.running[name] = sim
	return sim, nil
}

// keep stops the simulators of providers that are gone. Requests on them may
// end first.
func (s *simulators) keep(list []upstream.ProviderConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, sim := range s.running {
		if !slices.ContainsFunc(list, func(c upstream.ProviderConfig) bool { return c.Name == name }) {
			delete(s.running, name)
			s.retiring = append(s.retiring, sim)
			s.serving.Go(func() { _ = sim.server.Shutdown(context.Background()) })
		}
	}
}

// close stops all simulators at once.
func (s *simulators) close() {
	s.keep(nil)
	for _, sim := range s.retiring {
		_ = sim.server.Close()
	}
	s.serving.Wait()
}
