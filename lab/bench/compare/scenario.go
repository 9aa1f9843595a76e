package compare

import (
	"fmt"
	"syscall"
	"time"

	"github.com/headgate-ai/headgate/lab/bench/mock"
)

// scenario is one kind of load.
type scenario struct {
	name, title string
	mock        mock.Config
	prompt      int
	// rate is that of the open loop; connections is the closed loop.
	rate        float64
	connections int
	// streams is how many are opened and kept; 0 is no bound.
	streams int
	// What is measured is the time between warm and warm+measure.
	warm, measure time.Duration
	without       []string // targets that the scenario says nothing about
}

// The scenarios' names.
const (
	unary  = "unary"
	big    = "big"
	closed = "closed"
	stream = "stream"
	hold   = "hold"
	idle   = "idle"
)

// names are all scenarios, in the order in which they run.
var names = []string{idle, unary, big, closed, stream, hold}

// scenarios are all of them. The short form is a trial of the bench, and its
// figures are rough.
func scenarios(short bool, streams int) []scenario {
	s := func(long, short_ time.Duration) time.Duration {
		if short {
			return short_
		}
		return long
	}
	const second = time.Second
	whole := mock.Config{Tokens: 100, TokenBytes: 5}
	ramp, held := s(10*second, 2*second), s(10*second, 3*second)
	// Every stream is still open when the last figure is taken.
	lives := int((ramp+held)/second) + 4
	return []scenario{
		{name: idle, title: fmt.Sprintf("at rest, %d keys configured", keyCount), mock: whole, measure: s(2*second, second), without: []string{direct}},
		{name: unary, title: "answers in one piece, open loop, 500 requests/s, 1 KiB prompt, 100 tokens", mock: whole, prompt: 1 << 10,
			rate: 500, warm: s(1500*time.Millisecond, second), measure: s(10*second, 2*second)},
		{name: big, title: "the same with 100 requests/s and a 64 KiB prompt", mock: whole, prompt: 64 << 10,
			rate: 100, warm: s(1500*time.Millisecond, second), measure: s(10*second, 2*second)},
		{name: closed, title: "answers in one piece, closed loop, 64 connections, 1 KiB prompt", mock: whole, prompt: 1 << 10,
			connections: 64, warm: second, measure: s(5*second, 2*second)},
		{name: stream, title: "200 streams at a time, 50 tokens/s each, 100 tokens", mock: mock.Config{Stream: true, Tokens: 100, TokenBytes: 40, Gap: 20 * time.Millisecond},
			prompt: 1 << 10, rate: 100, warm: 2500 * time.Millisecond, measure: s(5*second, 2*second)},
		{name: hold, title: fmt.Sprintf("%d streams held open, 1 token/s each", streams), mock: mock.Config{Stream: true, Tokens: lives, TokenBytes: 40, Gap: second},
			prompt: 1 << 10, rate: float64(streams) / ramp.Seconds(), streams: streams, warm: ramp + second, measure: held, without: []string{direct}},
	}
}

// heldStreams is how many of the streams that are asked for the limit on
// descriptors allows: a gateway needs two for each.
func heldStreams(asked int) (streams int, limit uint64) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return asked, 0
	}
	// Go raises the soft limit to the hard one in every process that it makes.
	return boundedStreams(asked, l.Max), l.Max
}

const spareDescriptors = 200

func boundedStreams(asked int, limit uint64) int {
	if limit <= spareDescriptors {
		return 1
	}
	return int(min(uint64(asked), (limit-spareDescriptors)/2))
}
