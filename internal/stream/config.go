package stream

import (
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

// Config is how answers travel to clients: the section stream.
type Config struct {
	// Keepalive is the silence after which a client is sent a comment that keeps
	// proxies from closing the connection: ": ping", or "event: ping" in the
	// Anthropic dialect; 0 turns it off.
	Keepalive setting.Duration `yaml:"keepalive"`
	// Retry is the reconnection time that clients are told with the first event
	// of a stream (the retry field of server-sent events); 0 sends none.
	Retry setting.Duration `yaml:"retry"`
	// WriteTimeout ends a stream whose client has read nothing for this long.
	WriteTimeout setting.Duration `yaml:"write_timeout"`
	// MaxEvent bounds one event of a stream.
	MaxEvent setting.Size `yaml:"max_event"`
	// Mode says what happens when a client reads more slowly than the model
	// writes: propagate lets the model wait (back-pressure), decouple reads on
	// into a buffer of buffer_limit first.
	Mode string `yaml:"mode"`
	// BufferLimit bounds the memory of one stream in the mode decouple.
	BufferLimit setting.Size `yaml:"buffer_limit"`
	// Flush says when bytes are handed to the network: event, after every whole
	// event; coalesce, when 4KiB or the time coalesce has gathered; full, only
	// when buffer_limit is full, which is how proxies that buffer behave and is
	// there to show what that costs.
	Flush string `yaml:"flush"`
	// Coalesce is the longest that a byte waits in the flush mode coalesce.
	Coalesce setting.Duration `yaml:"coalesce"`
	// WholeLimit bounds a JSON answer that is checked before it is passed on; a
	// larger one is passed on as it comes.
	WholeLimit setting.Size `yaml:"whole_limit"`
}

// Default is the configuration that names nothing.
func Default() Config {
	return Config{
		Keepalive:    setting.Duration(15 * time.Second),
		Retry:        setting.Duration(3 * time.Second),
		WriteTimeout: setting.Duration(30 * time.Second),
		MaxEvent:     8 << 20,
		Mode:         "propagate",
		BufferLimit:  256 << 10,
		Flush:        "event",
		Coalesce:     setting.Duration(100 * time.Millisecond),
		WholeLimit:   8 << 20,
	}
}

// Validate notes every mistake.
func (c *Config) Validate(path string, p *setting.Problems) {
	if c.Mode != "propagate" && c.Mode != "decouple" {
		p.Add(path+".mode", "unknown mode %q; known modes are propagate, decouple", c.Mode)
	}
	if c.Flush != "event" && c.Flush != "coalesce" && c.Flush != "full" {
		p.Add(path+".flush", "unknown flush mode %q; known modes are event, coalesce, full", c.Flush)
	}
	if c.MaxEvent < 4<<10 {
		p.Add(path+".max_event", "is too small for the events of any model; write at least 4KiB, better 8MiB")
	}
	if c.BufferLimit < 4<<10 {
		p.Add(path+".buffer_limit", "is too small; write at least 4KiB")
	}
	if c.WholeLimit < 64<<10 {
		p.Add(path+".whole_limit", "is too small; write at least 64KiB")
	}
	if c.WriteTimeout == 0 {
		p.Add(path+".write_timeout", "must be more than zero: a client that stopped reading would hold its stream for ever")
	}
	if c.Flush == "coalesce" && (c.Coalesce == 0 || c.Coalesce > setting.Duration(time.Second)) {
		p.Add(path+".coalesce", "must lie between 1ms and 1s; 100ms is usual")
	}
}

// flushMode is when bytes are handed to the network.
type flushMode uint8

const (
	flushEvent flushMode = iota
	flushCoalesce
	flushFull
)

// Plan is the compiled configuration.
type Plan struct {
	keepalive, write, coalesce time.Duration
	retryMS                    int64
	maxEvent, buffer, whole    int
	decouple                   bool
	flush                      flushMode
}

// Compile makes the plan of a valid configuration.
func (c *Config) Compile() Plan {
	return Plan{
		keepalive: c.Keepalive.Std(), write: c.WriteTimeout.Std(), coalesce: c.Coalesce.Std(),
		retryMS: c.Retry.Std().Milliseconds(), maxEvent: int(c.MaxEvent), buffer: int(c.BufferLimit), whole: int(c.WholeLimit),
		decouple: c.Mode == "decouple",
		flush:    map[string]flushMode{"event": flushEvent, "coalesce": flushCoalesce, "full": flushFull}[c.Flush],
	}
}

// WriteTimeout bounds the writing of n bytes to a client: the configured time,
// beside one second for every 64 KiB.
func (p *Plan) WriteTimeout(n int) time.Duration {
	return p.write + time.Duration(n/(64<<10))*time.Second
}
