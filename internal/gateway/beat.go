package gateway

import (
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/fleet"
)

// A call adds to the pulse of the provider that it is sent to: where it begins
// and where it fails before an answer, in send; from there on, here. Pulses are
// kept for the limits that go by them, and only for those.

// begun notes what the provider says it is, and which of its models was called.
func (a *answer) begun(model string) {
	if a.snap.Quota.Adapts() {
		a.reply.Provider.Pulse.Name(a.reply.Header.Get("Openai-Version"), model)
	}
}

// answered says that the first of the answer has come; only the first call says
// anything.
func (a *answer) answered(now time.Time) {
	if !a.told && a.snap.Quota.Adapts() {
		a.told = true
		a.reply.Provider.Pulse.Answer(now.Sub(a.reply.Sent))
	}
}

// ended says how the call ended.
func (a *answer) ended(err error) {
	switch failed := failedUpstream(err); {
	case !a.snap.Quota.Adapts():
	case failed && a.told:
		a.reply.Provider.Pulse.Break()
	case !a.told:
		unanswered(a.reply.Provider.Pulse, failed)
	}
}

// unanswered says that a call ended without an answer.
func unanswered(p *fleet.Pulse, failed bool) {
	if failed {
		p.Fail()
		return
	}
	p.Leave()
}

// failedUpstream is whether a call failed by its provider's fault, which a
// provider's own limit is, too.
func failedUpstream(err error) bool {
	return err != nil && fault.KindOf(err).Blame() == fault.Upstreams
}
