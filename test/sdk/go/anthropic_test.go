package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
)

func claude(opts ...option.RequestOption) *anthropic.Client {
	c := anthropic.NewClient(append([]option.RequestOption{
		option.WithBaseURL(gateway), option.WithAPIKey(wideKey), option.WithMaxRetries(0), option.WithRequestTimeout(30 * time.Second),
	}, opts...)...)
	return &c
}

// claudeNamed gives a request an id of its own.
func claudeNamed() (string, option.RequestOption) {
	id := newID()
	return id, option.WithHeader("X-Request-Id", id)
}

func message(model, content string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: anthropic.Model(model), MaxTokens: 4096,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(content))},
	}
}

const question = "Say something about canals."

// received is what came of a streamed message.
type received struct {
	events  []anthropic.MessageStreamEventUnion
	message anthropic.Message
	text    string
	first   time.Time // when the first text came
	stopped bool      // message_stop came
}

// converse reads a streamed message to its end or its error.
func converse(ctx context.Context, client *anthropic.Client, params anthropic.MessageNewParams, opts ...option.RequestOption) (got received, err error) {
	stream := client.Messages.NewStreaming(ctx, params, opts...)
	defer stream.Close()
	for stream.Next() {
		e := stream.Current()
		got.events = append(got.events, e)
		if err := got.message.Accumulate(e); err != nil {
			return got, err
		}
		if e.Type == "content_block_delta" && e.Delta.Text != "" {
			got.text += e.Delta.Text
			if got.first.IsZero() {
				got.first = time.Now()
			}
		}
		got.stopped = got.stopped || e.Type == "message_stop"
	}
	return got, stream.Err()
}

func TestAnthropicMessage(t *testing.T) {
	id, withID := claudeNamed()
	answer, err := claude().Messages.New(t.Context(), message("sonnet", question), withID, option.WithHeader("Anthropic-Beta", "context-1m-2025-08-07"))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Content[0].Text == "" || answer.StopReason != "end_turn" || answer.Usage.OutputTokens != 16 {
		t.Errorf("answer %s", answer.RawJSON())
	}
	up := seenOnce(t, id)
	if up.Path != "/v1/messages" || up.Model != "claude-sonnet-5" {
		t.Errorf("upstream saw %s of %s, want the alias resolved", up.Path, up.Model)
	}
	if v, beta := up.Header.Get("Anthropic-Version"), up.Header.Get("Anthropic-Beta"); v != "2026-10-21" || beta != "context-1m-2025-08-07" {
		t.Errorf("the client's version and beta arrived as %q and %q", v, beta)
	}
	if header, _ := json.Marshal(up.Header); bytes.Contains(header, []byte(wideKey)) {
		t.Error("the client's key travelled upstream")
	}
}

func TestAnthropicRequestIDs(t *testing.T) {
	id, withID := claudeNamed()
	var res *http.Response
	if _, err := claude().Messages.New(t.Context(), message("sonnet", question), withID, option.WithResponseInto(&res)); err != nil {
		t.Fatal(err)
	}
	if got := res.Header.Get("X-Request-Id"); got != id {
		t.Errorf("the client's request id came back as %q, want %q", got, id)
	}
	if res.Header.Get("Request-Id") == "" {
		t.Error("the answer has no request-id")
	}
	_, err := claude().Messages.New(t.Context(), message("no-such-model", question), withID)
	if e := wantAnthropicError(t, err, 404, "not_found_error"); e.RequestID != id {
		t.Errorf("the SDK finds the request-id %q in a refusal by the gateway, want %q", e.RequestID, id)
	}
}

func TestAnthropicKeyPlaces(t *testing.T) {
	for place, opts := range map[string][]option.RequestOption{
		"Authorization": nil,
		"X-Api-Key":     {option.WithHeaderDel("Authorization"), option.WithHeader("X-Api-Key", wideKey)},
	} {
		for _, base := range []string{gateway, gateway + "/anthropic"} {
			var rec recorder
			opts := append(slices.Clone(opts), option.WithBaseURL(base), option.WithMiddleware(rec.middleware))
			if _, err := claude(opts...).Messages.New(t.Context(), message("sonnet", question)); err != nil {
				t.Errorf("%s at %s: %v", place, base, err)
			}
			if (rec.header.Get("X-Api-Key") != "") != (place == "X-Api-Key") || (rec.header.Get("Authorization") != "") != (place == "Authorization") {
				t.Errorf("the SDK sent other credentials than %s: %v", place, rec.header)
			}
		}
	}
}

func TestAnthropicStream(t *testing.T) {
	got, err := converse(t.Context(), claude(), message("claude-sonnet-5+tokens=40+token-gap=10ms+stamp=1", question))
	if err != nil {
		t.Fatal(err)
	}
	if last := wantStamps(t, got.text, 40); !got.first.Before(last) {
		t.Errorf("the first token came at %v, after the last was made at %v", got.first, last)
	}
	var order []string
	for _, e := range got.events {
		if len(order) == 0 || order[len(order)-1] != e.Type {
			order = append(order, e.Type)
		}
	}
	order = slices.DeleteFunc(order, func(s string) bool { return s == "ping" })
	if want := "message_start content_block_start content_block_delta content_block_stop message_delta message_stop"; strings.Join(order, " ") != want {
		t.Errorf("events %q, want %q", order, want)
	}
	if m := got.message; m.Content[0].Text != got.text || m.StopReason != "end_turn" || m.Usage.OutputTokens != 40 {
		t.Errorf("the whole message is %s", m.RawJSON())
	}
}

func TestAnthropicToolsAsBytes(t *testing.T) {
	body := `{"tools" : [{"input_schema":` + oddSchema + `,"name":"open_gate"}],` +
		` "temperature":1.0, "model":"sonnet", "messages":[{"role":"user","content":"\u006fpen \/ it"}], "max_tokens":64}`
	id, withID := claudeNamed()
	if _, err := claude().Messages.New(t.Context(), message("sonnet", question), withID, option.WithRequestBody("application/json", []byte(body))); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(body, `"sonnet"`, `"claude-sonnet-5"`, 1)
	if got := string(seenOnce(t, id).Body); got != want {
		t.Errorf("upstream got\n%s\nwant\n%s", got, want)
	}
}

func TestAnthropicStreamedToolUse(t *testing.T) {
	params := message("claude-sonnet-5+tool-calls=3", question)
	for _, name := range []string{"open_gate", "close_gate"} {
		params.Tools = append(params.Tools, anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
			Properties: map[string]any{"zone": map[string]string{"type": "string"}, "amount": map[string]string{"type": "integer"}},
		}, name))
	}
	got, err := converse(t.Context(), claude(), params)
	if err != nil {
		t.Fatal(err)
	}
	if got.message.StopReason != "tool_use" || len(got.message.Content) != 3 {
		t.Fatalf("stop reason %q with %d blocks", got.message.StopReason, len(got.message.Content))
	}
	for _, block := range got.message.Content {
		var given struct {
			Zone   *string
			Amount *int
		}
		if err := json.Unmarshal(block.Input, &given); err != nil || block.Type != "tool_use" || given.Zone == nil || given.Amount == nil {
			t.Errorf("%s with the input %s: %v", block.Type, block.Input, err)
		}
	}
}

func TestAnthropicAbort(t *testing.T) {
	before := streamsCancelled(t)
	id, withID := claudeNamed()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := claude().Messages.NewStreaming(ctx, message("claude-sonnet-5+tokens=2000+token-gap=10ms", question), withID)
	defer stream.Close()
	for range 8 {
		if !stream.Next() {
			t.Fatal(stream.Err())
		}
	}
	cancel()
	wantCancelled(t, id)
	if got := streamsCancelled(t); got != before+1 {
		t.Errorf("%d cancelled streams, want %d", got, before+1)
	}
}

// wantAnthropicError fails unless err is the SDK's error of a status and type.
func wantAnthropicError(t *testing.T, err error, status int, kind string) *anthropic.Error {
	t.Helper()
	e, ok := errors.AsType[*anthropic.Error](err)
	if !ok {
		t.Fatalf("%v (%T) is no error of the SDK", err, err)
	}
	if e.StatusCode != status || string(e.Type()) != kind || e.Message == "" {
		t.Errorf("error %d %q %q, want %d %q", e.StatusCode, e.Type(), e.Message, status, kind)
	}
	return e
}

func TestAnthropicErrorsOfTheGateway(t *testing.T) {
	for _, c := range []struct {
		client *anthropic.Client
		model  string
		status int
		kind   string
	}{
		{claude(option.WithAPIKey("sk-wrong")), "sonnet", 401, "authentication_error"},
		{claude(option.WithAPIKey(narrowKey)), "claude-sonnet-5", 403, "permission_error"},
		{claude(), "no-such-model", 404, "not_found_error"},
	} {
		id, withID := claudeNamed()
		_, err := c.client.Messages.New(t.Context(), message(c.model, question), withID)
		wantAnthropicError(t, err, c.status, c.kind)
		_, err = converse(t.Context(), c.client, message(c.model, question), withID)
		wantAnthropicError(t, err, c.status, c.kind)
		if n := len(seen(t, id)); n != 0 {
			t.Errorf("%d: %d requests reached the provider", c.status, n)
		}
	}
}

func TestAnthropicErrorsOfTheProvider(t *testing.T) {
	for status, kind := range map[int]string{400: "invalid_request_error", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"} {
		_, err := claude().Messages.New(t.Context(), message(fmt.Sprintf("claude-sonnet-5+status=%d", status), question))
		wantAnthropicError(t, err, status, kind)
	}
}

func TestAnthropicRetries(t *testing.T) {
	id, withID := claudeNamed()
	began := time.Now()
	params := message("claude-sonnet-5+fail-first=1+error-status=429+retry-after=1200ms", question)
	if _, err := claude().Messages.New(t.Context(), params, withID, option.WithMaxRetries(2)); err != nil {
		t.Fatal(err)
	}
	// Without a hint the SDK would have come back after half a second.
	if took := time.Since(began); took < 1200*time.Millisecond {
		t.Errorf("the SDK came back after %v", took)
	}
	if got := statuses(t, id); !slices.Equal(got, []int{429, 200}) {
		t.Errorf("the provider answered %v", got)
	}

	id, withID = claudeNamed()
	_, err := claude().Messages.New(t.Context(), message("claude-sonnet-5+status=529+retry-after=10ms", question), withID, option.WithMaxRetries(2))
	wantAnthropicError(t, err, 529, "overloaded_error")
	if got := statuses(t, id); !slices.Equal(got, []int{529, 529, 529}) {
		t.Errorf("the provider answered %v, want one answer for each of the SDK's tries", got)
	}
}

func TestAnthropicBrokenStreams(t *testing.T) {
	for _, fault := range []string{"error-event", "abort", "reset", "cut-json", "half-json", "no-done"} {
		t.Run(fault, func(t *testing.T) {
			id, withID := claudeNamed()
			params := message("claude-sonnet-5+tokens=20+token-gap=5ms+stamp=1+fault-after=3+fault="+fault, question)
			got, err := converse(t.Context(), claude(), params, withID)
			if err == nil {
				t.Errorf("no error after %d events", len(got.events))
			}
			if got.stopped {
				t.Error("the message is said to be complete")
			}
			if fault != "no-done" {
				wantStamps(t, got.text, 3)
			}
			seenOnce(t, id) // a begun stream is not tried again
		})
	}
}

func TestAnthropicCountTokens(t *testing.T) {
	id, withID := claudeNamed()
	content := strings.Repeat("gate ", 100)
	answer, err := claude().Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
		Model: "sonnet", Messages: message("sonnet", content).Messages,
	}, withID)
	if err != nil {
		t.Fatal(err)
	}
	if answer.InputTokens < int64(len(content)/4) {
		t.Errorf("%d tokens", answer.InputTokens)
	}
	if up := seenOnce(t, id); up.Path != "/v1/messages/count_tokens" || up.Model != "claude-sonnet-5" {
		t.Errorf("upstream saw %s of %s", up.Path, up.Model)
	}
}

func TestAnthropicModels(t *testing.T) {
	for key, want := range map[string][]string{wideKey: {"chat", "moderation", "sonnet"}, narrowKey: {"chat", "sonnet"}} {
		pages := claude(option.WithAPIKey(key)).Models.ListAutoPaging(t.Context(), anthropic.ModelListParams{})
		var ids []string
		for pages.Next() {
			ids = append(ids, pages.Current().ID)
		}
		if err := pages.Err(); err != nil || !slices.Equal(ids, want) {
			t.Errorf("%s may use %q, want %q; %v", key, ids, want, err)
		}
	}
	for _, id := range []string{"sonnet", "anthropic/claude-sonnet-5"} {
		if m, err := claude().Models.Get(t.Context(), id, anthropic.ModelGetParams{}); err != nil || m.ID != id {
			t.Errorf("%s: %v, %v", id, m, err)
		}
	}
	_, err := claude().Models.Get(t.Context(), "no-such-model", anthropic.ModelGetParams{})
	wantAnthropicError(t, err, 404, "not_found_error")
}

func TestAnthropicFiftyStreams(t *testing.T) {
	client := claude()
	parallel(t, 50, func(i int) error {
		got, err := converse(t.Context(), client, message("claude-sonnet-5+tokens=40+token-gap=5ms+stamp=1", fmt.Sprintf("stream %d", i)))
		wantStamps(t, got.text, 40)
		if !got.stopped || got.message.StopReason != "end_turn" {
			return fmt.Errorf("stream %d ended with %q, %w", i, got.message.StopReason, err)
		}
		return err
	})
}

func TestAnthropicLargeBody(t *testing.T) {
	params := message("claude-sonnet-5", longText(8<<20))
	var rec recorder
	client := claude(option.WithMiddleware(rec.middleware))
	id, withID := claudeNamed()
	answer, err := client.Messages.New(t.Context(), params, withID)
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.body) < 8<<20 || !bytes.HasPrefix(rec.body, seenOnce(t, id).Body) {
		t.Error("the body did not even begin as it was sent")
	}
	if want := string(rec.direct(t)); answer.RawJSON() != want {
		t.Errorf("the body did not arrive byte for byte: %s, want %s", answer.RawJSON(), want)
	}

	// The simulator makes the id from the body.
	got, err := converse(t.Context(), client, params)
	if err != nil {
		t.Fatal(err)
	}
	if want := rec.direct(t); got.message.ID == "" || !bytes.Contains(want, []byte(`"id":"`+got.message.ID+`"`)) {
		t.Errorf("the streaming body did not arrive byte for byte: %s, want it in %.300s", got.message.ID, want)
	}
}
