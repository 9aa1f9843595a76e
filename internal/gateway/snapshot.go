package gateway

import (
	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/meter"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/route"
	"github.com/headgate-ai/headgate/internal/stream"
	"github.com/headgate-ai/headgate/internal/upstream"
)

// Snapshot is every plan of one configuration. It is built whole, swapped whole
// and never changed.
type Snapshot struct {
	Edge     edge.Plan
	Authn    authn.Plan
	Quota    quota.Plan
	Prices   meter.Table
	Route    route.Plan
	Upstream upstream.Plan
	Stream   stream.Plan
	Journal  journal.Plan
}
