package static

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestGet(t *testing.T) {
	data := []byte("a: 1\n")
	s := New("environment", data)
	data[0] = 'x'
	doc, err := s.Get(t.Context())
	if err != nil || string(doc.Data) != "a: 1\n" || doc.Name != "environment" || len(doc.Version) != 64 {
		t.Errorf("%+v, %v", doc, err)
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New("admin", []byte("a"))
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		ended := make(chan error)
		go func() { ended <- s.Watch(ctx, func() { calls++ }) }()
		for _, step := range []struct {
			data string
			want int
		}{{"a", 0}, {"b", 1}, {"b", 1}, {"a", 2}} {
			s.Set([]byte(step.data))
			synctest.Wait()
			if calls != step.want {
				t.Errorf("after %q: %d calls, want %d", step.data, calls, step.want)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
