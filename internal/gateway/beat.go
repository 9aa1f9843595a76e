package gateway

import (
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/upstream"
)

// beat is what one call adds to the pulse of the provider that answers it. The
// zero beat adds nothing.
type beat struct {
	pulse *fleet.Pulse
	sent  time.Time
	told  bool // it has been answered
}

// beatOf is the beat of a call that has been sent and has the head of an answer.
// Pulses are kept for the limits that go by them, and only for those.
func beatOf(snap *Snapshot, reply *upstream.Reply, model string) beat {
	if !snap.Quota.Adapts() {
		return beat{}
	}
	b := beat{pulse: reply.Provider.Pulse, sent: reply.Sent}
	b.pulse.Name(reply.Header.Get("Openai-Version"), model)
	return b
}

// answered says that the first of the answer has come; only the first call says
// anything.
func (b *beat) answered(now time.Time) {
	if b.pulse != nil && !b.told {
		b.told = true
		b.pulse.Answer(now.Sub(b.sent))
	}
}

// ended says how the call ended.
func (b *beat) ended(err error) {
	switch failed := failedUpstream(err); {
	case b.pulse == nil:
	case failed && b.told:
		b.pulse.Break()
	case failed:
		b.pulse.Fail()
	case !b.told:
		b.pulse.Leave()
	}
}

// failedUpstream is whether a call failed by its provider's fault, which a
// provider's own limit is, too.
func failedUpstream(err error) bool {
	return err != nil && fault.KindOf(err).Blame() == fault.Upstreams
}
