package gcra

import (
	"testing"

	"github.com/headgate-ai/headgate/internal/quota/limittest"
)

func TestBucket(t *testing.T)    { limittest.Bucket[Limit, State](t) }
func BenchmarkTake(b *testing.B) { limittest.BenchmarkBucket[Limit, State](b) }
