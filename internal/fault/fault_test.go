package fault_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/fault"
)

// Every row of the table is filled in, and with values that exist.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	snake, code := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`), regexp.MustCompile(`^([a-z]+(_[a-z]+)*|[A-Z]+(_[A-Z]+)*)$`)
	for _, k := range fault.Kinds() {
		if names[k.String()] || !snake.MatchString(k.String()) {
			t.Errorf("name %q", k)
		}
		names[k.String()] = true
		if s := k.Status(); s != 499 && http.StatusText(s) == "" || s < 400 {
			t.Errorf("%s: status %d", k, s)
		}
		if k.GRPC() < 1 || k.GRPC() > 16 {
			t.Errorf("%s: gRPC code %d", k, k.GRPC())
		}
		if !snake.MatchString(k.OpenAIType()) || !snake.MatchString(k.AnthropicType()) || !code.MatchString(k.Code()) || k.GeminiStatus() != strings.ToUpper(k.GeminiStatus()) || k.GeminiStatus() == "" {
			t.Errorf("%s: %s %s %s %s", k, k.OpenAIType(), k.Code(), k.AnthropicType(), k.GeminiStatus())
		}
		if p := k.Public(); !strings.HasSuffix(p, ".") || strings.Contains(p, "%") {
			t.Errorf("%s: %q is no sentence", k, p)
		}
		if k.Trips() && k.Blame() != fault.Upstreams {
			t.Errorf("%s trips a provider's breaker and is the fault of the %s", k, k.Blame())
		}
		if k.Status() < 500 && k.Blame() == fault.Ours {
			t.Errorf("%s: %d is ours", k, k.Status())
		}
	}
	if k := fault.Kind(200); k.String() != "internal" || k.Status() != 500 {
		t.Errorf("an unknown kind is %s", k)
	}
}

func TestClassify(t *testing.T) {
	cause := io.ErrUnexpectedEOF
	e := fault.Wrap(fault.UpstreamTruncated, "upstream.Read", cause)
	wrapped := fmt.Errorf("while reading: %w", e)
	if fault.Of(wrapped) != e || fault.KindOf(wrapped) != fault.UpstreamTruncated || !errors.Is(wrapped, cause) {
		t.Error("a fault inside an error is not found")
	}
	if f := fault.Of(cause); f.Kind != fault.Internal || !errors.Is(f, cause) || strings.Contains(f.Sentence(), cause.Error()) {
		t.Errorf("%+v", f)
	}
	if fault.Of(nil) != nil || fault.KindOf(cause) != fault.Internal {
		t.Error("nothing, or a stranger")
	}
	if e.HTTPStatus() != 502 || e.Sentence() != fault.UpstreamTruncated.Public() || strings.Contains(e.Sentence(), "EOF") || !strings.Contains(e.Error(), "EOF") {
		t.Errorf("%s", e)
	}
	e = fault.New(fault.Malformed, "edge.Decode", "The field %q is wrong.", "x")
	e.Status = 422
	if e.HTTPStatus() != 422 || e.Sentence() != `The field "x" is wrong.` {
		t.Errorf("%s", e)
	}
}
