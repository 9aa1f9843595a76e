package condition

import (
	"strings"
	"time"

	"cel.dev/cel-go/cel"
)

// Input is what is known of one request when a condition is asked. Who calls
// Eval fills in what Uses says is read; the rest may stay empty.
type Input struct {
	// Path is the path of the request as the client called it, such as
	// /v1/chat/completions.
	Path string
	// Model is the model by the name the client called.
	Model string
	// Op is the operation, such as chat; Dialect the API's dialect, such as
	// openai; Method the HTTP method.
	Op, Dialect, Method string
	// IP is the client's address as text, of a trusted proxy's header where
	// there is one, without a port.
	IP string
	// Region and Intent are what the client or the gateway said of them, ""
	// where nothing was said.
	Region, Intent string
	// Stream is whether a streamed answer was asked for.
	Stream bool
	// Bytes is the size of the body, Tokens the estimate of its input tokens,
	// MaxTokens the client's bound on output tokens (0 for none), Messages the
	// number of turns.
	Bytes, Tokens, MaxTokens, Messages int64

	// Key, Tenant, User and Tier are those of the principal.
	Key, Tenant, User, Tier string
	// Roles are the principal's roles.
	Roles []string
	// Claims are those of the principal's token as JSON decodes them, nil where
	// an API key was used.
	Claims map[string]any

	// Owner is whom the resource that is asked for belongs to, "" for none.
	Owner string

	// Now is the time of the request.
	Now time.Time
	// Zone is where the hour and the weekday are read; nil is UTC. The location
	// within Now is not used, because it is the machine's and no one's decision.
	Zone *time.Location
}

// clock is Now on the clock that conditions read.
func (in *Input) clock() time.Time {
	if in.Zone == nil {
		return in.Now.UTC()
	}
	return in.Now.In(in.Zone)
}

// Fields is a set of what conditions read.
type Fields uint32

// The fields. An alias counts as the field it stands for.
const (
	Path Fields = 1 << iota
	Model
	Op
	Dialect
	Method
	IP
	Region
	Intent
	Stream
	Bytes
	Tokens
	MaxTokens
	Messages
	Key
	Tenant
	User
	Tier
	Roles
	Claims
	Owner
	// Time is the hour, minute, weekday or date: a verdict that depends on it
	// holds for at most a minute.
	Time
)

// unfilled is what belongs to parts of the gateway that are not built: operations
// that are called by intent, and resources that have an owner.
const unfilled = Intent | Owner

// Named are the fields that are names and flags. A verdict on nothing else is the
// same for all requests that have these in common.
const Named = Path | Model | Op | Dialect | Method | IP | Region | Intent | Stream | Key | Tenant | User | Tier | Owner

// Names are readers of the fields in f that are Named: each of them says of two
// inputs the same where the field is the same.
func (f Fields) Names() (all []func(*Input) string) {
	var seen Fields
	for i := range variables {
		v := &variables[i]
		if !v.field.Within(f&Named) || v.field.Within(seen) {
			continue
		}
		seen |= v.field
		if v.text != nil {
			all = append(all, v.text)
		} else {
			all = append(all, func(in *Input) string {
				if v.flag(in) {
					return "true"
				}
				return "false"
			})
		}
	}
	return all
}

// Within is whether everything in f is also in allowed.
func (f Fields) Within(allowed Fields) bool { return f&^allowed == 0 }

// Any is whether f has one of the wanted fields.
func (f Fields) Any(wanted Fields) bool { return f&wanted != 0 }

// variable is a name that conditions know. Exactly one of the four readers of
// the simple types is set, or none for lists and maps.
type variable struct {
	name  string
	field Fields
	text  func(*Input) string
	num   func(*Input) int64
	flag  func(*Input) bool
	other func(*Input) any
	typ   *cel.Type // of other
}

// variables is everything that conditions can read, in the order of messages.
var variables = []variable{
	{name: "request.path", field: Path, text: func(in *Input) string { return in.Path }},
	{name: "request.model", field: Model, text: model},
	{name: "request.op", field: Op, text: func(in *Input) string { return in.Op }},
	{name: "request.dialect", field: Dialect, text: func(in *Input) string { return in.Dialect }},
	{name: "request.method", field: Method, text: func(in *Input) string { return in.Method }},
	{name: "request.ip", field: IP, text: func(in *Input) string { return in.IP }},
	{name: "request.region", field: Region, text: region},
	{name: "request.intent", field: Intent, text: intent},
	{name: "request.stream", field: Stream, flag: stream},
	{name: "request.bytes", field: Bytes, num: func(in *Input) int64 { return in.Bytes }},
	{name: "request.tokens", field: Tokens, num: tokens},
	{name: "request.max_tokens", field: MaxTokens, num: func(in *Input) int64 { return in.MaxTokens }},
	{name: "request.messages", field: Messages, num: func(in *Input) int64 { return in.Messages }},
	{name: "principal.key", field: Key, text: func(in *Input) string { return in.Key }},
	{name: "principal.tenant", field: Tenant, text: tenant},
	{name: "principal.user", field: User, text: func(in *Input) string { return in.User }},
	{name: "principal.tier", field: Tier, text: tier},
	{name: "principal.roles", field: Roles, other: func(in *Input) any { return in.Roles }, typ: cel.ListType(cel.StringType)},
	{name: "principal.claims", field: Claims, other: claims, typ: cel.MapType(cel.StringType, cel.DynType)},
	{name: "resource.owner_id", field: Owner, text: func(in *Input) string { return in.Owner }},
	{name: "time.hour", field: Time, num: func(in *Input) int64 { return int64(in.clock().Hour()) }},
	{name: "time.minute", field: Time, num: func(in *Input) int64 { return int64(in.clock().Minute()) }},
	{name: "time.weekday", field: Time, num: func(in *Input) int64 { return int64(in.clock().Weekday()) }},
	{name: "time.date", field: Time, text: func(in *Input) string { return in.clock().Format(time.DateOnly) }},
	{name: "model", field: Model, text: model},
	{name: "tenant", field: Tenant, text: tenant},
	{name: "tier", field: Tier, text: tier},
	{name: "region", field: Region, text: region},
	{name: "stream", field: Stream, flag: stream},
	{name: "est_tokens", field: Tokens, num: tokens},
	{name: "intent", field: Intent, text: intent},
}

func model(in *Input) string  { return in.Model }
func tenant(in *Input) string { return in.Tenant }
func tier(in *Input) string   { return in.Tier }
func region(in *Input) string { return in.Region }
func intent(in *Input) string { return in.Intent }
func stream(in *Input) bool   { return in.Stream }
func tokens(in *Input) int64  { return in.Tokens }

func claims(in *Input) any {
	if in.Claims == nil {
		return map[string]any{}
	}
	return in.Claims
}

// byName finds a variable.
var byName = func() map[string]*variable {
	m := make(map[string]*variable, len(variables))
	for i := range variables {
		m[variables[i].name] = &variables[i]
	}
	return m
}()

// Names lists what conditions can read, for messages and documents.
func Names() (names []string) {
	for _, v := range variables {
		if !unfilled.Any(v.field) {
			names = append(names, v.name)
		}
	}
	return names
}

func (v *variable) celType() *cel.Type {
	switch {
	case v.text != nil:
		return cel.StringType
	case v.num != nil:
		return cel.IntType
	case v.flag != nil:
		return cel.BoolType
	}
	return v.typ
}

func (v *variable) value(in *Input) any {
	switch {
	case v.text != nil:
		return v.text(in)
	case v.num != nil:
		return v.num(in)
	case v.flag != nil:
		return v.flag(in)
	}
	return v.other(in)
}

// binding shows an Input to CEL, one variable at a time.
type binding Input

// ResolveName implements cel.Activation.
func (b *binding) ResolveName(name string) (any, bool) {
	// A name of the root scope may be written with a dot in front.
	v, ok := byName[strings.TrimPrefix(name, ".")]
	if !ok {
		return nil, false
	}
	return v.value((*Input)(b)), true
}

// Parent implements cel.Activation.
func (*binding) Parent() cel.Activation { return nil }
