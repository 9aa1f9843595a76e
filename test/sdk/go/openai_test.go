package sdk

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

func openAI(opts ...option.RequestOption) *openai.Client {
	c := openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(gateway + "/v1"), option.WithAPIKey(wideKey), option.WithMaxRetries(0), option.WithRequestTimeout(30 * time.Second),
	}, opts...)...)
	return &c
}

// named gives a request an id of its own.
func named() (string, option.RequestOption) {
	id := newID()
	return id, option.WithHeader("X-Request-Id", id)
}

func chat(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say something about canals.")},
	}
}

// drain reads a stream to its end or its error.
func drain[T any](s *ssestream.Stream[T]) (items []T, err error) {
	defer s.Close()
	for s.Next() {
		items = append(items, s.Current())
	}
	return items, s.Err()
}

// textOf is the text of a stream's chunks, and the reasons to finish in them.
func textOf(chunks []openai.ChatCompletionChunk) (text string, finish []string) {
	for _, c := range chunks {
		for _, choice := range c.Choices {
			text += choice.Delta.Content
			if choice.FinishReason != "" {
				finish = append(finish, choice.FinishReason)
			}
		}
	}
	return text, finish
}

func TestOpenAIChat(t *testing.T) {
	id, withID := named()
	var res *http.Response
	answer, err := openAI().Chat.Completions.New(t.Context(), chat("chat"), withID, option.WithResponseInto(&res))
	if err != nil {
		t.Fatal(err)
	}
	if c := answer.Choices[0]; c.Message.Content == "" || c.FinishReason != "stop" || answer.Usage.CompletionTokens != 16 {
		t.Errorf("answer %s", answer.RawJSON())
	}
	if got := res.Header.Get("X-Request-Id"); got != id {
		t.Errorf("the client's request id came back as %q, want %q", got, id)
	}
	up := seenOnce(t, id)
	if up.Path != "/v1/chat/completions" || up.Model != "gpt-4o-mini" {
		t.Errorf("upstream saw %s of %s, want the alias resolved", up.Path, up.Model)
	}
	if header, _ := json.Marshal(up.Header); bytes.Contains(header, []byte(wideKey)) {
		t.Error("the client's key travelled upstream")
	}
}

func TestOpenAIMintedRequestID(t *testing.T) {
	var res *http.Response
	if _, err := openAI().Chat.Completions.New(t.Context(), chat("chat"), option.WithResponseInto(&res)); err != nil {
		t.Fatal(err)
	}
	seenOnce(t, res.Header.Get("X-Request-Id"))
}

func TestOpenAIKeyPlaces(t *testing.T) {
	var rec recorder
	byHeader := openAI(option.WithHeaderDel("Authorization"), option.WithHeader("X-Api-Key", wideKey), option.WithMiddleware(rec.middleware))
	if _, err := byHeader.Chat.Completions.New(t.Context(), chat("chat")); err != nil {
		t.Error(err)
	}
	if rec.header.Get("Authorization") != "" || rec.header.Get("X-Api-Key") == "" {
		t.Errorf("the SDK sent other credentials than this test is about: %v", rec.header)
	}
}

func TestOpenAIStream(t *testing.T) {
	stream := openAI().Chat.Completions.NewStreaming(t.Context(), chat("gpt-4o-mini+tokens=40+token-gap=10ms+stamp=1"))
	defer stream.Close()
	var first time.Time
	var chunks []openai.ChatCompletionChunk
	for stream.Next() {
		c := stream.Current()
		if first.IsZero() && len(c.Choices) > 0 && c.Choices[0].Delta.Content != "" {
			first = time.Now()
		}
		if len(c.Choices) == 0 || c.Usage.TotalTokens != 0 {
			t.Errorf("unasked usage in %s", c.RawJSON())
		}
		chunks = append(chunks, c)
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	text, finish := textOf(chunks)
	if last := wantStamps(t, text, 40); !first.Before(last) {
		t.Errorf("the first token came at %v, after the last was made at %v", first, last)
	}
	if !slices.Equal(finish, []string{"stop"}) {
		t.Errorf("finish reasons %q", finish)
	}
}

func TestOpenAIStreamUsage(t *testing.T) {
	params := chat("chat")
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	chunks, err := drain(openAI().Chat.Completions.NewStreaming(t.Context(), params))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range chunks {
		if last := i == len(chunks)-1; last != (len(c.Choices) == 0) || last != (c.Usage.CompletionTokens == 16) {
			t.Errorf("usage belongs into the last chunk; chunk %d is %s", i, c.RawJSON())
		}
	}
}

func TestOpenAIToolsAsBytes(t *testing.T) {
	body := `{"tools" : [{"type":"function","function":{"parameters":` + oddSchema + `,"name":"open_gate"}}],` +
		` "temperature":1.0, "model":"chat", "messages":[{"role":"user","content":"\u006fpen \/ it"}], "seed":1e2}`
	id, withID := named()
	if _, err := openAI().Chat.Completions.New(t.Context(), chat("chat"), withID, option.WithRequestBody("application/json", []byte(body))); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(body, `"chat"`, `"gpt-4o-mini"`, 1)
	if got := string(seenOnce(t, id).Body); got != want {
		t.Errorf("upstream got\n%s\nwant\n%s", got, want)
	}
}

func TestOpenAIStreamedToolCalls(t *testing.T) {
	params := chat("gpt-4o-mini+tool-calls=3")
	for _, name := range []string{"open_gate", "close_gate"} {
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: name, Parameters: shared.FunctionParameters{
				"type": "object", "properties": map[string]any{"zone": map[string]string{"type": "string"}, "amount": map[string]string{"type": "integer"}},
			},
		}))
	}
	stream := openAI().Chat.Completions.NewStreaming(t.Context(), params)
	defer stream.Close()
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			t.Fatalf("chunk that does not fit: %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	choice := whole.Choices[0]
	if choice.FinishReason != "tool_calls" || len(choice.Message.ToolCalls) != 3 {
		t.Fatalf("finish %q with %d tool calls", choice.FinishReason, len(choice.Message.ToolCalls))
	}
	for _, call := range choice.Message.ToolCalls {
		var given struct {
			Zone   *string
			Amount *int
		}
		if err := json.Unmarshal([]byte(call.Function.Arguments), &given); err != nil || given.Zone == nil || given.Amount == nil {
			t.Errorf("arguments %q: %v", call.Function.Arguments, err)
		}
	}
}

func TestOpenAIAbort(t *testing.T) {
	before := streamsCancelled(t)
	id, withID := named()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := openAI().Chat.Completions.NewStreaming(ctx, chat("gpt-4o-mini+tokens=2000+token-gap=10ms"), withID)
	defer stream.Close()
	for range 5 {
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

func TestOpenAIAbortUnary(t *testing.T) {
	id, withID := named()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := openAI().Chat.Completions.New(ctx, chat("gpt-4o-mini+first-token=30s"), withID)
		done <- err
	}()
	if err := waitFor(5*time.Second, func() bool { return len(seen(t, id)) == 1 }); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	wantCancelled(t, id)
}

// wantOpenAIError fails unless err is the SDK's error of a status and code.
func wantOpenAIError(t *testing.T, err error, status int, code string) *openai.Error {
	t.Helper()
	e, ok := errors.AsType[*openai.Error](err)
	if !ok {
		t.Fatalf("%v (%T) is no error of the SDK", err, err)
	}
	if e.StatusCode != status || code != "" && e.Code != code || e.Message == "" || e.Type == "" {
		t.Errorf("error %d %q %q %q, want %d %q", e.StatusCode, e.Type, e.Code, e.Message, status, code)
	}
	return e
}

func TestOpenAIErrorsOfTheGateway(t *testing.T) {
	for _, c := range []struct {
		client *openai.Client
		model  string
		status int
		code   string
	}{
		{openAI(option.WithAPIKey("sk-wrong")), "chat", 401, "invalid_api_key"},
		{openAI(option.WithAPIKey(narrowKey)), "gpt-4o-mini", 403, "MODEL_NOT_ALLOWED"},
		{openAI(), "no-such-model", 404, "model_not_found"},
	} {
		id, withID := named()
		_, err := c.client.Chat.Completions.New(t.Context(), chat(c.model), withID)
		e := wantOpenAIError(t, err, c.status, c.code)
		if got := e.Response.Header.Get("X-Request-Id"); got != id {
			t.Errorf("%d: request id %q, want %q", c.status, got, id)
		}
		_, err = drain(c.client.Chat.Completions.NewStreaming(t.Context(), chat(c.model), withID))
		wantOpenAIError(t, err, c.status, c.code)
		if n := len(seen(t, id)); n != 0 {
			t.Errorf("%d: %d requests reached the provider", c.status, n)
		}
	}
}

func TestOpenAIErrorsOfTheProvider(t *testing.T) {
	for _, status := range []int{400, 409, 422, 429, 500, 503} {
		_, err := openAI().Chat.Completions.New(t.Context(), chat(fmt.Sprintf("gpt-4o-mini+status=%d", status)))
		wantOpenAIError(t, err, status, "")
	}
	_, err := openAI().Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "chat", Messages: []openai.ChatCompletionMessageParamUnion{}})
	if e := wantOpenAIError(t, err, 400, ""); e.Param != "messages" {
		t.Errorf("the wrong parameter is said to be %q", e.Param)
	}
}

func TestOpenAIRetries(t *testing.T) {
	id, withID := named()
	began := time.Now()
	params := chat("gpt-4o-mini+fail-first=1+error-status=429+retry-after=1200ms")
	if _, err := openAI().Chat.Completions.New(t.Context(), params, withID, option.WithMaxRetries(2)); err != nil {
		t.Fatal(err)
	}
	// Without a hint the SDK would have come back after half a second.
	if took := time.Since(began); took < 1200*time.Millisecond {
		t.Errorf("the SDK came back after %v", took)
	}
	if got := statuses(t, id); !slices.Equal(got, []int{429, 200}) {
		t.Errorf("the provider answered %v", got)
	}

	id, withID = named()
	_, err := openAI().Chat.Completions.New(t.Context(), chat("gpt-4o-mini+status=500+retry-after=10ms"), withID, option.WithMaxRetries(2))
	wantOpenAIError(t, err, 500, "")
	if got := statuses(t, id); !slices.Equal(got, []int{500, 500, 500}) {
		t.Errorf("the provider answered %v, want one answer for each of the SDK's tries", got)
	}

	_, err = openAI().Chat.Completions.New(t.Context(), chat("gpt-4o-mini+status=429+retry-after=1500ms"))
	h := wantOpenAIError(t, err, 429, "rate_limit_exceeded").Response.Header
	if h.Get("Retry-After") != "2" || h.Get("Retry-After-Ms") != "1500" {
		t.Errorf("retry-after %q, retry-after-ms %q", h.Get("Retry-After"), h.Get("Retry-After-Ms"))
	}
}

func TestOpenAIBrokenStreams(t *testing.T) {
	for _, fault := range []string{"error-event", "abort", "reset", "cut-json", "half-json"} {
		t.Run(fault, func(t *testing.T) {
			id, withID := named()
			params := chat("gpt-4o-mini+tokens=20+token-gap=5ms+stamp=1+fault-after=3+fault=" + fault)
			chunks, err := drain(openAI().Chat.Completions.NewStreaming(t.Context(), params, withID))
			if err == nil {
				t.Errorf("no error after %d chunks", len(chunks))
			}
			text, finish := textOf(chunks)
			wantStamps(t, text, 3)
			if len(finish) != 0 {
				t.Errorf("the stream finished with %q", finish)
			}
			seenOnce(t, id) // a begun stream is not tried again
		})
	}
}

func TestOpenAIBrokenResponses(t *testing.T) {
	for _, fault := range []string{"error-event", "abort"} {
		t.Run(fault, func(t *testing.T) {
			params := responses.ResponseNewParams{
				Model: "gpt-4o-mini+tokens=20+fault-after=3+fault=" + fault, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Say something.")},
			}
			events, err := drain(openAI().Responses.NewStreaming(t.Context(), params))
			if err == nil && (len(events) == 0 || events[len(events)-1].Type != "error") {
				t.Errorf("neither an error nor an error event after %d events", len(events))
			}
			for _, e := range events {
				if e.Type == "response.completed" {
					t.Error("the response is said to be complete")
				}
			}
		})
	}
}

func TestOpenAIEmbeddings(t *testing.T) {
	params := openai.EmbeddingNewParams{
		Model: "text-embedding-3-small", Dimensions: openai.Int(256),
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"still water", "a gate"}},
	}
	vectors := map[openai.EmbeddingNewParamsEncodingFormat]*openai.CreateEmbeddingResponse{}
	for _, format := range []openai.EmbeddingNewParamsEncodingFormat{"", "float", "base64"} {
		params.EncodingFormat = format
		got, err := openAI().Embeddings.New(t.Context(), params)
		if err != nil {
			t.Fatalf("%q: %v", format, err)
		}
		if len(got.Data) != 2 || len(got.Data[1].Embedding) != 256 || got.Usage.PromptTokens == 0 {
			t.Fatalf("%q: %s", format, got.RawJSON())
		}
		if isString := got.Data[0].JSON.Embedding.Raw()[0] == '"'; isString != (format == "base64") {
			t.Errorf("%q: came as %.20s", format, got.Data[0].JSON.Embedding.Raw())
		}
		vectors[format] = got
	}
	for i, d := range vectors["base64"].Data {
		for j, x := range d.Embedding {
			if y := vectors["float"].Data[i].Embedding[j]; math.Abs(x-y) > 1e-7 {
				t.Fatalf("vector %d differs at %d: %v and %v", i, j, x, y)
			}
		}
	}
}

func TestOpenAIModels(t *testing.T) {
	for key, want := range map[string][]string{wideKey: {"chat", "moderation", "sonnet"}, narrowKey: {"chat", "sonnet"}} {
		list, err := openAI(option.WithAPIKey(key)).Models.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%s may use %q, want %q", key, ids, want)
		}
	}
	for _, id := range []string{"chat", "gpt-4o-mini", "openai/gpt-4o:beta"} {
		if m, err := openAI().Models.Get(t.Context(), id); err != nil || m.ID != id || m.OwnedBy != "openai" {
			t.Errorf("%s: %v, %v", id, m, err)
		}
	}
	_, err := openAI().Models.Get(t.Context(), "no-such-model")
	wantOpenAIError(t, err, 404, "model_not_found")
	_, err = openAI(option.WithAPIKey(narrowKey)).Models.Get(t.Context(), "gpt-4o-mini")
	wantOpenAIError(t, err, 404, "model_not_found")
}

func TestOpenAIModerations(t *testing.T) {
	answer, err := openAI().Moderations.New(t.Context(), openai.ModerationNewParams{
		Model: "moderation", Input: openai.ModerationNewParamsInputUnion{OfStringArray: []string{"fine", "flagme"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Results) != 2 || answer.Results[0].Flagged || !answer.Results[1].Flagged {
		t.Errorf("answer %s", answer.RawJSON())
	}
}

func TestOpenAIImages(t *testing.T) {
	var rec recorder
	answer, err := openAI(option.WithMiddleware(rec.middleware)).Images.Generate(t.Context(), openai.ImageGenerateParams{
		Model: "gpt-image-1", Prompt: "A canal at dawn", N: openai.Int(2),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Data) != 2 {
		t.Fatalf("%d images", len(answer.Data))
	}
	if png, err := base64.StdEncoding.DecodeString(answer.Data[0].B64JSON); err != nil || !bytes.HasPrefix(png, []byte("\x89PNG")) {
		t.Errorf("no picture: %v", err)
	}
	if got, want := answer.RawJSON(), string(rec.direct(t)); got != want {
		t.Errorf("answer %.200s, want %.200s", got, want)
	}
}

func TestOpenAITranscription(t *testing.T) {
	audio := make([]byte, 3<<20)
	for i := range audio {
		audio[i] = byte(uint64(i) * 0x9e3779b97f4a7c15 >> 24)
	}
	sdkOrder := openai.AudioTranscriptionNewParams{Model: "gpt-4o-transcribe", File: openai.File(bytes.NewReader(audio), "speech.wav", "audio/wav")}
	// The SDK puts the file first; this form has it last.
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	_ = w.WriteField("model", "gpt-4o-transcribe")
	part, _ := w.CreateFormFile("file", "speech.wav")
	_, _ = part.Write(audio)
	_ = w.Close()

	for name, opts := range map[string][]option.RequestOption{
		"file, model": nil, "model, file": {option.WithRequestBody(w.FormDataContentType(), form.Bytes())},
	} {
		t.Run(name, func(t *testing.T) {
			var rec recorder
			id, withID := named()
			opts := append(opts, withID, option.WithMiddleware(rec.middleware))
			answer, err := openAI().Audio.Transcriptions.New(t.Context(), sdkOrder, opts...)
			if err != nil {
				t.Fatal(err)
			}
			fileFirst := bytes.Index(rec.body, []byte(`name="file"`)) < bytes.Index(rec.body, []byte(`name="model"`))
			if fileFirst != strings.HasPrefix(name, "file") {
				t.Errorf("the SDK wrote the form in another order than this test is about")
			}
			if up := seenOnce(t, id); up.Model != "gpt-4o-transcribe" {
				t.Errorf("upstream saw the model %q", up.Model)
			}
			if got, want := answer.RawJSON(), string(rec.direct(t)); got != want {
				t.Errorf("the form did not arrive byte for byte: %s, want %s", got, want)
			}
		})
	}
}

func TestOpenAISpeech(t *testing.T) {
	var rec recorder
	res, err := openAI(option.WithMiddleware(rec.middleware)).Audio.Speech.New(t.Context(), openai.AudioSpeechNewParams{
		Model: "gpt-4o-mini-tts+tokens=300", Input: "Still water.", ResponseFormat: "wav",
		Voice: openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("alloy")},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	audio, err := io.ReadAll(res.Body)
	if err != nil || len(audio) != 300<<10 || res.Header.Get("Content-Type") != "audio/wav" {
		t.Errorf("%d bytes of %s, %v", len(audio), res.Header.Get("Content-Type"), err)
	}
	if !bytes.Equal(audio, rec.direct(t)) {
		t.Error("the audio is not what the provider sent")
	}
}

func TestOpenAIResponses(t *testing.T) {
	var rec recorder
	params := responses.ResponseNewParams{Model: "gpt-4o-mini", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Say something.")}}
	answer, err := openAI(option.WithMiddleware(rec.middleware)).Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Status != "completed" || answer.OutputText() == "" || answer.Usage.OutputTokens != 16 {
		t.Errorf("answer %s", answer.RawJSON())
	}
	if want := string(rec.direct(t)); answer.RawJSON() != want {
		t.Errorf("answer %s, want %s", answer.RawJSON(), want)
	}

	params.Model = "gpt-4o-mini+tokens=30+stamp=1"
	events, err := drain(openAI().Responses.NewStreaming(t.Context(), params))
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for i, e := range events {
		if e.SequenceNumber != int64(i) {
			t.Errorf("event %d has the number %d", i, e.SequenceNumber)
		}
		if e.Type == "response.output_text.delta" {
			text += e.Delta
		}
	}
	wantStamps(t, text, 30)
	if last := events[len(events)-1]; last.Type != "response.completed" || last.Response.OutputText() != text {
		t.Errorf("the stream ends with %s", last.RawJSON())
	}
}

func TestOpenAIFiftyStreams(t *testing.T) {
	client := openAI()
	parallel(t, 50, func(i int) error {
		params := chat("gpt-4o-mini+tokens=40+token-gap=5ms+stamp=1")
		params.Messages = append(params.Messages, openai.UserMessage(fmt.Sprintf("stream %d", i)))
		chunks, err := drain(client.Chat.Completions.NewStreaming(t.Context(), params))
		text, finish := textOf(chunks)
		wantStamps(t, text, 40)
		if !slices.Equal(finish, []string{"stop"}) {
			return fmt.Errorf("stream %d finished with %q, %w", i, finish, err)
		}
		return err
	})
}

var chunkID = regexp.MustCompile(`"id":"chatcmpl-[^"]+"`)

func TestOpenAILargeBody(t *testing.T) {
	params := chat("gpt-4o-mini")
	params.Messages = append(params.Messages, openai.UserMessage(longText(8<<20)))
	var rec recorder
	client := openAI(option.WithMiddleware(rec.middleware))
	id, withID := named()
	answer, err := client.Chat.Completions.New(t.Context(), params, withID)
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.body) < 8<<20 || !bytes.HasPrefix(rec.body, seenOnce(t, id).Body) {
		t.Error("the body did not even begin as it was sent")
	}
	if want := string(rec.direct(t)); answer.RawJSON() != want {
		t.Errorf("the body did not arrive byte for byte: %s, want %s", answer.RawJSON(), want)
	}

	// With include_usage there is nothing for the gateway to add to the body. The simulator makes the id from the body.
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	chunks, err := drain(client.Chat.Completions.NewStreaming(t.Context(), params))
	if err != nil {
		t.Fatal(err)
	}
	if want := chunkID.FindString(string(rec.direct(t))); want == "" || !strings.Contains(chunks[0].RawJSON(), want) {
		t.Errorf("the streaming body did not arrive byte for byte: %s, want %s", chunks[0].RawJSON(), want)
	}
}
