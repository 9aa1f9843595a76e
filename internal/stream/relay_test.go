package stream

import (
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/internal/wire/openai"
)

func retry3s(c *Config, _ *Events)   { c.Retry = Default().Retry }
func hideUsage(_ *Config, e *Events) { e.HideUsage = true }
func decouple(c *Config, _ *Events)  { c.Mode = "decouple" }
func full(c *Config, _ *Events)      { c.Flush = "full" }
func coalesce(c *Config, _ *Events)  { c.Flush = "coalesce" }

// However the bytes come, the client gets the same ones.
func TestEveryCutGivesTheSameBytes(t *testing.T) {
	for _, v := range conversations {
		for name, c := range map[string]struct{ in, want string }{
			"lf":         {v.text, v.text},
			"crlf":       {eol(v.text, "\r\n"), eol(v.text, "\r\n")},
			"cr":         {eol(v.text, "\r"), eol(v.text, "\r")},
			"bom":        {"\xef\xbb\xbf" + v.text, v.text},
			"comments":   {": hi\n\n: there\n" + v.text, ": hi\n\n: there\n" + v.text},
			"stray":      {"\n\n" + strings.ReplaceAll(v.text, "\n\n", "\n\n\n\n\n"), v.text},
			"stray crlf": {"\r\n" + eol(strings.ReplaceAll(v.text, "\n\n", "\n\n\n"), "\r\n"), eol(v.text, "\r\n")},
			"no data":    {strings.ReplaceAll(v.text, "\n\n", "\n\nid: 7\n\nevent: x\n\nretry: 1\n\ndata\n\ndata: \n\n"), v.text},
			"no blank":   {strings.TrimRight(v.text, "\n"), v.text},
			"one blank":  {strings.TrimSuffix(v.text, "\n"), v.text},
			"after end":  {v.text + "data: {\"more\":1}\n\n" + token("x"), v.text},
		} {
			t.Run(v.name+"/"+name, func(t *testing.T) {
				check := func(how string, body io.ReadCloser, changes ...change) {
					t.Helper()
					if r := relay(t, v, body, changes...); r.err != nil || r.got != c.want {
						t.Fatalf("%s: %v\ngot  %q\nwant %q", how, r.err, r.got, c.want)
					}
				}
				for at := 0; at <= len(c.in); at += stride {
					check(fmt.Sprint("cut at ", at), cuts(c.in, at))
				}
				for _, size := range []int{1, 2, 3, 7, 16, 1 << 20} {
					for how, f := range map[string]change{"event": func(*Config, *Events) {}, "decouple": decouple, "full": full, "coalesce": coalesce} {
						check(fmt.Sprint("size ", size, how), &pieces{c.in, size, io.EOF}, f)
					}
				}
				for seed := range uint64(20 / stride) {
					check(fmt.Sprint("random ", seed), &random{c.in, rand.New(rand.NewPCG(seed, 1))})
				}
			})
		}
	}
}

type random struct {
	text string
	rng  *rand.Rand
}

func (r *random) Read(b []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 1+r.rng.IntN(40))], r.text)
	r.text = r.text[n:]
	return n, nil
}
func (*random) Close() error { return nil }

// A blank line at every position between two lines that allow one gives the
// same events, and no event without data.
func TestStrayBlankLineAnywhere(t *testing.T) {
	for _, v := range conversations {
		_, want := parse(t, v.text)
		for i := range v.text {
			if !strings.HasSuffix(v.text[:i], "\n\n") && i > 0 {
				continue
			}
			for _, stray := range []string{"\n", "\r\n", "\r", "\n\n\n\n", "\r\n\r\n"} {
				for _, size := range []int{1, 5, 4096} {
					r := relay(t, v, &pieces{v.text[:i] + stray + v.text[i:], size, io.EOF})
					if _, got := parse(t, r.got); r.err != nil || !slices.Equal(got, want) || r.got != v.text {
						t.Fatalf("%q at %d, reads of %d: %v %q", stray, i, size, r.err, r.got)
					}
				}
			}
		}
	}
}

// The vectors are those of the WHATWG's tests of EventSource ("eventsource" in
// web-platform-tests) that concern the format.
func TestWHATWGVectors(t *testing.T) {
	loose := conversation{"loose", openai.Dialect{}, llm.Speech, ""}
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"field parsing":     {"data:\x00\ndata:  2\rData:1\ndata\x00:2\ndata:1\r\x00data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n", []string{"\x00\n 2\n1\n3\n\n4"}},
		"bom":               {"\xef\xbb\xbfdata:1\n\n\xef\xbb\xbfdata:2\n\ndata:3\n\n", []string{"1", "3"}},
		"bom twice":         {"\xef\xbb\xbf\xef\xbb\xbfdata:1\n\ndata:2\n\ndata:3\n\n", []string{"2", "3"}},
		"comments":          {"data:1\r:\x00\n:\r\ndata:2\n:" + strings.Repeat("x", 2048) + "\rdata:3\n:data:fail\r:" + strings.Repeat("x", 2048) + "\ndata:4\n\n", []string{"1\n2\n3\n4"}},
		"no last blank":     {"data: a\n\ndata: b", []string{"a", "b"}}, // on purpose: a relay that forgives
		"empty data":        {"data:\n\ndata\ndata\n\ndata:test\n\n", []string{"\n", "test"}},
		"leading space":     {"data:\ttest\rdata: \ndata:test\n\n", []string{"\ttest\n\ntest"}},
		"newlines":          {"data:test\r\ndata\ndata:test\r\n\r\n", []string{"test\n\ntest"}},
		"unknown":           {"data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\ndata:test\n\n", []string{"test\n\ntest"}},
		"null character":    {"data:\x00\n\n\n\ndata:\xe2\x98\x83\n\n", []string{"\x00", "☃"}},
		"unusual names":     {"event: a b\ndata: 1\n\nevent\ndata: 2\n\n", []string{"1", "2"}},
		"id and retry":      {"id: 1\nretry: 3\ndata: x\n\nid: a\x00b\ndata: y\n\nretry: 1x\ndata: z\n\n", []string{"x", "y", "z"}},
		"cr, lf, crlf":      {"data: 1\r\rdata: 2\n\ndata: 3\r\n\r\n", []string{"1", "2", "3"}},
		"utf-8 is not read": {"data: \xff\xfe\n\n", []string{"\xff\xfe"}},
	} {
		for at := 0; at <= len(c.in); at += stride {
			r := relay(t, loose, cuts(c.in, at), retry3s)
			if _, got := parse(t, r.got); r.err != nil || !slices.Equal(got, c.want) {
				t.Fatalf("%s, cut at %d: %v\ngot  %q\nwant %q\nfrom %q", name, at, r.err, got, c.want, r.got)
			}
		}
	}
}

func TestRetryIsPartOfTheFirstEvent(t *testing.T) {
	for _, v := range conversations {
		first, rest, _ := strings.Cut(v.text, "\n\n")
		for name, c := range map[string]struct{ in, want string }{
			"plain":       {v.text, "retry: 3000\n" + v.text},
			"comment":     {": hi\n\n" + v.text, ": hi\n\nretry: 3000\n" + v.text},
			"comment, cr": {": hi\r\n\r\n" + v.text, ": hi\r\n\r\nretry: 3000\n" + v.text},
			"bom, blank":  {"\xef\xbb\xbf\n\n" + v.text, "retry: 3000\n" + v.text},
			"its own":     {"retry: 9\n\n" + v.text, "retry: 3000\n" + v.text},
			"crlf":        {eol(v.text, "\r\n"), "retry: 3000\n" + eol(v.text, "\r\n")},
			"in a field":  {first + "\n\n\n" + rest, "retry: 3000\n" + v.text},
		} {
			for at := 0; at <= len(c.in); at += stride {
				if r := relay(t, v, cuts(c.in, at), retry3s); r.err != nil || r.got != c.want {
					t.Fatalf("%s/%s cut at %d: %v\ngot  %q\nwant %q", v.name, name, at, r.err, r.got, c.want)
				}
			}
		}
	}
}

func TestEndings(t *testing.T) {
	noDone := strings.TrimSuffix(chat.text, done)
	twoChoices := strings.ReplaceAll(token("a"), `"index":0`, `"index":1`)
	secondDone := strings.ReplaceAll(stop, `"index":0`, `"index":1`)
	boom := `data: {"error":{"message":"boom","type":"server_error","code":"rate_limit_exceeded"}}` + "\n\n"
	none := fault.Kind(255)
	for name, c := range map[string]struct {
		v        conversation
		in, want string
		kind     fault.Kind
		changes  []change
	}{
		"[DONE] put in":               {chat, noDone, chat.text, none, nil},
		"[DONE] cut":                  {chat, noDone + "data: [DO", chat.text, none, nil},
		"[DONE] only begun":           {chat, noDone + "dat", chat.text, none, nil},
		"usage, no [DONE]":            {chat, noDone + usage, noDone + usage + done, none, nil},
		"usage hidden":                {chat, noDone + usage + done, chat.text, none, []change{hideUsage}},
		"usage hidden, no [DONE]":     {chat, noDone + usage, chat.text, none, []change{hideUsage}},
		"usage hidden, no blank":      {chat, noDone + strings.TrimSpace(usage), chat.text, none, []change{hideUsage}},
		"usage asked for":             {chat, noDone + usage + done, noDone + usage + done, none, nil},
		"no finish":                   {chat, role + token("a"), role + token("a"), fault.UpstreamTruncated, nil},
		"one of two finished":         {chat, role + token("a") + twoChoices + stop, role + token("a") + twoChoices + stop, fault.UpstreamTruncated, nil},
		"two of two finished":         {chat, role + token("a") + twoChoices + stop + secondDone, role + token("a") + twoChoices + stop + secondDone + done, none, nil},
		"empty":                       {chat, "", "", fault.UpstreamMalformed, nil},
		"only blanks":                 {chat, "\n\n\r\n\r", "", fault.UpstreamMalformed, nil},
		"only comments":               {chat, ": a\n\n: b\n\n", ": a\n\n: b\n\n", fault.UpstreamMalformed, nil},
		"malformed first":             {chat, "data: {oops\n\n" + chat.text, "", fault.UpstreamMalformed, nil},
		"malformed later":             {chat, role + token("a") + "data: {oops\n\n" + stop, role + token("a"), fault.UpstreamMalformed, nil},
		"web page":                    {chat, "<html>\n<p>data: no</p>\n\n", "", fault.UpstreamMalformed, nil},
		"error first":                 {chat, boom + done, "", fault.UpstreamRateLimited, nil},
		"error first, no blank":       {chat, strings.TrimSpace(boom), "", fault.UpstreamRateLimited, nil},
		"comment, then error":         {chat, ": wait\n\n" + boom, "", fault.UpstreamRateLimited, nil},
		"error later":                 {chat, role + token("a") + boom + token("b") + done, role + token("a") + boom, fault.UpstreamRateLimited, nil},
		"anthropic, no stop":          {messages, messages.text[:strings.Index(messages.text, "event: message_stop")], messages.text[:strings.Index(messages.text, "event: message_stop")], fault.UpstreamTruncated, nil},
		"responses, no completed":     {responses, responses.text[:strings.Index(responses.text, "event: response.completed")], responses.text[:strings.Index(responses.text, "event: response.completed")], fault.UpstreamTruncated, nil},
		"completion":                  {conversation{"", openai.Dialect{}, llm.Completion, ""}, `data: {"choices":[{"text":"a","index":0,"finish_reason":"stop"}]}` + "\n\n", `data: {"choices":[{"text":"a","index":0,"finish_reason":"stop"}]}` + "\n\n" + done, none, nil},
		"nothing may be after [DONE]": {chat, chat.text + strings.Repeat(token("late"), 100), chat.text, none, nil},
	} {
		for _, size := range []int{1, 13, 4096} {
			for _, mode := range []string{"event", "full", "coalesce"} {
				// In one read, comments that come with the failure are not sent.
				r := relay(t, c.v, &pieces{c.in, size, io.EOF}, append(c.changes, func(cfg *Config, _ *Events) { cfg.Flush = mode })...)
				got := r.client.b.String()
				if strings.HasPrefix(got, ": ") && name == "comment, then error" && size < 4096 || name == "only comments" && (size == 4096 || mode == "full") {
					continue // which of the two is a matter of timing, or of buffering
				}
				if kind(r.err) != c.kind || got != c.want {
					t.Errorf("%s, reads of %d, %s: %v\ngot  %q\nwant %q", name, size, mode, r.err, got, c.want)
				}
				if _, passed := Passed(r.err); passed != (name == "error later") {
					t.Errorf("%s: passed is %v", name, passed)
				}
			}
		}
	}
}

// A stream cut at any byte is, for its client, whole or visibly broken.
func TestACutStreamNeverLooksWhole(t *testing.T) {
	for _, v := range append(conversations, conversation{"chat crlf", chat.d, chat.op, eol(chat.text, "\r\n")}) {
		_, want := parse(t, v.text)
		for at := 0; at < len(v.text); at += stride {
			for _, err := range []error{io.EOF, io.ErrUnexpectedEOF} {
				r := relay(t, v, &pieces{v.text[:at], 64, err}, retry3s)
				_, got := parse(t, r.told(v))
				if whole := slices.Equal(got, want); whole != (r.err == nil) {
					t.Fatalf("%s cut at %d (%v): error %v, whole %v: %q", v.name, at, err, r.err, whole, got)
				}
				if r.err == nil {
					continue
				}
				if k := kind(r.err); k != fault.UpstreamTruncated && !(k == fault.UpstreamMalformed && r.got == "") {
					t.Fatalf("%s cut at %d: %v", v.name, at, r.err)
				}
				if last := got[len(got)-1]; !strings.Contains(last, `"error":{`) || strings.Contains(r.got, "[DONE]") {
					t.Fatalf("%s cut at %d: not visibly broken: %q", v.name, at, got)
				}
				for i, data := range got[:len(got)-1] {
					if data != want[i] {
						t.Fatalf("%s cut at %d: event %d is %q", v.name, at, i, data)
					}
				}
			}
		}
	}
}

func TestMaxEvent(t *testing.T) {
	big := func(n int) string {
		ev := token("")
		return token(strings.Repeat("x", n-len(ev)))
	}
	for _, max := range []int{4 << 10, 5000, 64 << 10, 3 << 20} {
		for _, size := range []int{997, 4096, 1 << 20} {
			set := func(c *Config, _ *Events) { c.MaxEvent = setting.Size(max) }
			whole := role + big(max) + stop + done
			if r := relay(t, chat, &pieces{whole, size, io.EOF}, set); r.err != nil || r.got != whole {
				t.Errorf("an event of %d of %d bytes, reads of %d: %v, %d bytes", max, max, size, r.err, len(r.got))
			}
			r := relay(t, chat, &pieces{role + big(max+1) + stop + done, size, io.EOF}, set)
			if kind(r.err) != fault.UpstreamMalformed || !strings.Contains(fault.Of(r.err).Sentence(), fmt.Sprint(max)) || r.client.b.String() != role {
				t.Errorf("an event of %d of %d bytes, reads of %d: %v, %d bytes", max+1, max, size, r.err, len(r.got))
			}
		}
	}
}

func TestGzipIsDeliveredByEvent(t *testing.T) {
	// upstream.Gunzip is tested there; here, that a flushed event is not held.
	in, out := io.Pipe()
	z := gzip.NewWriter(out)
	cl := &client{}
	seen := make(chan string)
	cl.onFlush = func(fresh []byte) { seen <- string(fresh) }
	ended := make(chan *result, 1)
	go func() {
		zr, err := gzip.NewReader(in)
		if err != nil {
			t.Error(err)
		}
		ended <- relay(t, chat, io.NopCloser(zr), func(_ *Config, e *Events) { e.To = cl })
	}()
	for _, ev := range strings.SplitAfter(chat.text, "\n\n") {
		if ev == "" {
			continue
		}
		_, _ = z.Write([]byte(ev))
		_ = z.Flush()
		if got := <-seen; got != ev {
			t.Fatalf("got %q, want %q", got, ev)
		}
	}
	_ = z.Close()
	_ = out.Close()
	if r := <-ended; r.err != nil {
		t.Error(r.err)
	}
}

// Everything that one read brought is written and flushed at once.
func TestOneWriteAndOneFlushPerRead(t *testing.T) {
	noisy := "\n\n: c\n\n" + strings.ReplaceAll(strings.TrimSuffix(chat.text, done), "\n\n", "\n\n\n\ndata:\n\n") + usage + done
	r := relay(t, chat, &pieces{noisy, 1 << 20, io.EOF}, hideUsage, retry3s)
	if r.client.writes != 1 || r.client.flushes != 1 || r.got != ": c\n\nretry: 3000\n"+chat.text {
		t.Errorf("%d writes, %d flushes: %q", r.client.writes, r.client.flushes, r.got)
	}
}

func TestReceipt(t *testing.T) {
	for _, c := range []struct {
		v      conversation
		reason string
		input  int64
	}{{conversation{"", chat.d, chat.op, strings.Replace(chat.text, done, usage+done, 1)}, "stop", 5}, {messages, "end_turn", 5}, {responses, "completed", 5}} {
		r := relay(t, c.v, &pieces{c.v.text, 10, io.EOF})
		if r.err != nil || r.FinishReason != c.reason || r.Usage.Input != c.input || r.Usage.Output != 3 || r.Usage.Estimated || r.provider.firsts != 1 || r.Stopped {
			t.Errorf("%s: %+v %v", c.v.op, r.Receipt, r.err)
		}
	}
}

func FuzzRelay(f *testing.F) {
	for _, v := range conversations {
		f.Add([]byte(v.text), 7)
		f.Add([]byte(eol(v.text, "\r\n")), 1)
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		size = 1 + int(uint(size)%100)
		one := relay(t, chat, &pieces{string(text), size, io.EOF})
		all := relay(t, chat, &pieces{string(text), 1 << 20, io.EOF})
		_, a := parse(t, one.client.b.String())
		_, b := parse(t, all.client.b.String())
		if kind(one.err) != kind(all.err) || !slices.Equal(a, b) {
			t.Fatalf("reads of %d: %v, at once: %v\n%q\n%q", size, one.err, all.err, a, b)
		}
		_, sent := parse(t, string(text)+"\n\n")
		for _, data := range a {
			if data == "" || data != "[DONE]" && !slices.Contains(sent, data) {
				t.Fatalf("an event that nobody sent: %q", data)
			}
		}
	})
}

// rooms gives one text a read, as far as there is room, and notes how much that was.
type rooms struct {
	texts []string
	sizes []int
}

func (r *rooms) Read(p []byte) (int, error) {
	if len(r.texts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.texts[0])
	if r.texts[0] = r.texts[0][n:]; r.texts[0] == "" {
		r.texts = r.texts[1:]
	}
	r.sizes = append(r.sizes, len(p))
	return n, nil
}

func (*rooms) Close() error { return nil }

// A stream holds a small buffer while little comes, a larger one while much does
// or for an event that is large, and then a small one again.
func TestBufferFits(t *testing.T) {
	small, flood, large := token("a"), strings.Repeat(token("b"), 200), token(strings.Repeat("c", 3*grownBuffer))
	body := &rooms{texts: []string{role, small, flood, small, small, large, small, small, stop, done}}
	want := role + small + flood + small + small + large + small + small + stop + done
	r := relay(t, chat, body)
	if r.err != nil || r.got != want {
		t.Fatalf("%v, %d bytes of %d", r.err, len(r.got), len(want))
	}
	most := slices.Max(body.sizes)
	if at := slices.Index(body.sizes, grownBuffer); at < 2 || most < grownBuffer {
		t.Errorf("reads had room for %d bytes", body.sizes)
	}
	for _, at := range []int{0, 1, len(body.sizes) - 1} {
		if body.sizes[at] != firstBuffer {
			t.Errorf("read %d had room for %d bytes: %d", at, body.sizes[at], body.sizes)
		}
	}
}
