package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// defaultAdmin is where a gateway that is not told otherwise listens for
// operators.
const defaultAdmin = "http://127.0.0.1:8081"

// adminFlags are those of every command that asks a running gateway.
type adminFlags struct {
	Admin string `help:"Address of a running gateway's admin listener, such as http://127.0.0.1:8081." placeholder:"URL"`
	Token string `help:"Admin token. Other users of the machine can see it; better set HEADGATE_ADMIN_TOKEN." placeholder:"TOKEN"`
}

// check makes a wrong address wrong usage.
func (f *adminFlags) check() error {
	if f.Admin == "" {
		return nil
	}
	u, err := url.Parse(f.Admin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("admin: write the address of the admin listener, such as http://127.0.0.1:8081")
	}
	return nil
}

// confirmFlags are those of commands that have a change confirmed.
type confirmFlags struct {
	Yes bool `short:"y" help:"Do not ask."`
}

// ask asks the operator whether a change is to be made.
func (f *confirmFlags) ask(env *Env, question string) error {
	if f.Yes {
		return nil
	}
	if env.Stdin == nil {
		return fmt.Errorf("%s There is nobody to ask; repeat the command with --yes", question)
	}
	fmt.Fprintf(env.Stderr, "%s [y/N] ", question)
	line, err := bufio.NewReader(env.Stdin).ReadString('\n')
	if err != nil && line == "" {
		return errors.New("not confirmed; nothing was changed")
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed; nothing was changed")
}

// adminAPI calls the admin API of a running gateway.
type adminAPI struct {
	base, token string
	client      *http.Client
}

func (f *adminFlags) api(env *Env) *adminAPI {
	base, token := f.Admin, f.Token
	if base == "" {
		base = defaultAdmin
	}
	if token == "" {
		token = env.Getenv("HEADGATE_ADMIN_TOKEN")
	}
	return &adminAPI{strings.TrimRight(base, "/"), token, &http.Client{
		Timeout: time.Minute,
		// The token is for the address that was named, and for no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 256 << 20

// reply is an answer of the admin API.
type reply struct {
	status int
	body   []byte
}

// send makes one call; confirm is a confirmation's token, "" for none.
func (a *adminAPI) send(ctx context.Context, method, path string, body any, confirm string) (r reply, err error) {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return r, err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, sent)
	if err != nil {
		return r, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	if confirm != "" {
		req.Header.Set("X-Confirm-Token", confirm)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return r, fmt.Errorf("the gateway does not answer: %w", err)
	}
	defer res.Body.Close()
	r.status = res.StatusCode
	if r.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err != nil {
		return r, fmt.Errorf("the gateway's answer broke off: %w", err)
	}
	return r, nil
}

// copy writes what is at a path, however much and however long it takes.
func (a *adminAPI) copy(ctx context.Context, path string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return err
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	patient := *a.client
	patient.Timeout = 0
	res, err := patient.Do(req)
	if err != nil {
		return fmt.Errorf("the gateway does not answer: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		r := reply{status: res.StatusCode}
		if r.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err != nil {
			return fmt.Errorf("the gateway's answer broke off: %w", err)
		}
		return r.failure()
	}
	if _, err := io.Copy(to, res.Body); err != nil {
		return fmt.Errorf("the entries are not complete: %w", err)
	}
	return nil
}

// get reads what is at a path.
func (a *adminAPI) get(ctx context.Context, path string) ([]byte, error) {
	r, err := a.send(ctx, http.MethodGet, path, nil, "")
	if err != nil {
		return nil, err
	}
	return r.body, r.failure()
}

// change makes a change, and has it confirmed where the gateway wants that: it
// asks the question, and calls again.
func (a *adminAPI) change(ctx context.Context, env *Env, f *confirmFlags, question, method, path string, body any) ([]byte, error) {
	r, err := a.send(ctx, method, path, body, "")
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusPreconditionRequired {
		return r.body, r.failure()
	}
	var token struct {
		Confirm string `json:"confirm"`
	}
	if err := json.Unmarshal(r.body, &token); err != nil || token.Confirm == "" {
		return nil, errors.New("the gateway wants a confirmation and sends no token for it")
	}
	if err := f.ask(env, question); err != nil {
		return nil, err
	}
	if r, err = a.send(ctx, method, path, body, token.Confirm); err != nil {
		return nil, err
	}
	return r.body, r.failure()
}

// failure is the error that an answer tells of.
func (r *reply) failure() error {
	if r.status < 300 {
		return nil
	}
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(r.body, &e); err != nil || e.Error.Message == "" {
		return fmt.Errorf("the gateway answers with HTTP status %d; is this its admin listener?", r.status)
	}
	return fmt.Errorf("%s (HTTP status %d)", e.Error.Message, r.status)
}

// read decodes an answer.
func read(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the gateway's answer cannot be read: %w", err)
	}
	return nil
}

// printRaw prints an answer as it is, with indentation.
func printRaw(w io.Writer, body []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(body), "", "  "); err != nil {
		return fmt.Errorf("the gateway's answer is not JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}
