package authn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // an image may have the binary and nothing else

	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// AccessConfig is what principals may do, beyond the scopes of their keys.
type AccessConfig struct {
	// Roles give permissions to a principal that has the role; what they are
	// called is what scopes are called, such as inference, models.read or *. A
	// principal of several roles has the permissions of all. One without any
	// role has those of the role "default"; where that is not defined, it is
	// held back by its key's scopes only.
	Roles map[string][]string `yaml:"roles"`
	// Conditions must hold for a request, every one of them; a role cannot
	// overrule them.
	Conditions []ConditionConfig `yaml:"conditions"`
	// TimeZone is where conditions read time.hour, time.weekday and the like, as
	// a name of the IANA database such as Europe/Berlin; default is UTC.
	TimeZone string `yaml:"time_zone"`
}

// ConditionConfig is one condition on requests.
type ConditionConfig struct {
	// Name is how the condition is called in answers and records.
	Name string `yaml:"name"`
	// When says which requests the condition is about, as an expression of CEL,
	// such as request.model.startsWith("gpt-4"); all when absent.
	When string `yaml:"when"`
	// Require must be true of such a request, or it is refused, as an expression
	// of CEL, such as principal.tier == "gold". It is refused, too, where the
	// expression has no value, such as when it reads a claim that is missing.
	Require string `yaml:"require"`
}

func (c *AccessConfig) validate(p *setting.Problems) {
	for _, role := range sortedNames(c.Roles) {
		checkScopes(p, "access.roles."+role, c.Roles[role])
	}
	if _, err := c.zone(); err != nil {
		p.Add("access.time_zone", "%v", err)
	}
	names := map[string]int{}
	for i, rule := range c.Conditions {
		path := setting.Index("access.conditions", i)
		setting.CheckName(p, path+".name", rule.Name)
		if j, dup := names[rule.Name]; dup && rule.Name != "" {
			p.Add(path+".name", "%q is already the name of access.conditions[%d]; names must differ", rule.Name, j)
		}
		names[rule.Name] = i
		if rule.When != "" {
			checkCondition(p, path+".when", rule.When)
		}
		if rule.Require == "" {
			p.Add(path+".require", "is missing; write what must be true, such as principal.tier == \"gold\", or false to refuse")
		} else {
			checkCondition(p, path+".require", rule.Require)
		}
	}
}

func checkCondition(p *setting.Problems, path, expr string) {
	if err := condition.Check(expr); err != nil {
		p.Add(path, "%v", err)
	}
}

// zone is the location of the time zone. The machine's own is refused, because
// the same configuration would mean another thing elsewhere.
func (c *AccessConfig) zone() (*time.Location, error) {
	if c.TimeZone == "" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(c.TimeZone)
	if err != nil || c.TimeZone == "Local" {
		return nil, fmt.Errorf("%q is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC", c.TimeZone)
	}
	return zone, nil
}

func compileCondition(p *setting.Problems, path, expr string) *condition.Condition {
	c, err := condition.Compile(expr)
	if err != nil {
		p.Add(path, "%v", err)
	}
	return c
}

// checkRoles notes roles that no one defined, if any are.
func (c *AccessConfig) checkRoles(p *setting.Problems, path string, roles []string) {
	for i, role := range roles {
		if _, ok := c.Roles[role]; !ok && len(c.Roles) > 0 {
			p.Add(setting.Index(path, i), "there is no role %q; known roles are %s", role, list(sortedNames(c.Roles)))
		}
	}
}

// access is the compiled AccessConfig.
type access struct {
	roles map[string][]string
	rules []rule
	names *[]string // of the rules; records keep them
	uses  condition.Fields
	zone  *time.Location
}

type rule struct {
	name          string
	when, require *condition.Condition // when is nil for all requests
}

// compile compiles anew what validate has found to be right.
func (c *AccessConfig) compile(p *setting.Problems) access {
	a := access{roles: make(map[string][]string, len(c.Roles)), names: new([]string)}
	if zone, err := c.zone(); err == nil { // validate has noted the other case
		a.zone = zone
	}
	for name, permissions := range c.Roles {
		a.roles[name] = canonicalScopes(permissions)
	}
	for i, rc := range c.Conditions {
		path := setting.Index("access.conditions", i)
		r := rule{name: rc.Name, require: compileCondition(p, path+".require", rc.Require)}
		if rc.When != "" {
			if r.when = compileCondition(p, path+".when", rc.When); r.when == nil {
				continue
			}
			a.uses |= r.when.Uses()
		}
		if r.require == nil {
			continue
		}
		a.uses |= r.require.Uses()
		a.rules, *a.names = append(a.rules, r), append(*a.names, r.name)
	}
	return a
}

// Decision is what access control decided, for the record.
type Decision struct {
	Allowed bool
	// Code is FORBIDDEN_RBAC or FORBIDDEN_ABAC where it was not allowed.
	Code string
	// Rule is what decided: a role, or a condition; "" where nothing forbade.
	Rule string
	// Role is the role that permits the operation, "" where none was asked.
	Role string
	// Held are the conditions that were about the request and held, as bits by
	// their place in Conditions; those from the 65th on are left out.
	Held uint64
	// Reason says why it was not allowed, for the client.
	Reason string
	// Err is why a condition had no value; it is for the record and not for the
	// client, as it may tell of the policy.
	Err error
}

// The codes of refusals.
const (
	ForbiddenRBAC = "FORBIDDEN_RBAC"
	ForbiddenABAC = "FORBIDDEN_ABAC"
)

func (d *Decision) fault(op string) *fault.Error {
	return &fault.Error{
		Kind: fault.Forbidden, Op: op, Public: d.Reason, Code: d.Code, Err: d.Err,
		Details: map[string]any{"code": d.Code, "rule": d.Rule},
	}
}

// Uses is what the conditions read of a request, so that the rest need not be
// found out.
func (p *Plan) Uses() condition.Fields { return p.access.uses }

// Decides is whether there are roles or conditions to ask.
func (p *Plan) Decides() bool { return len(p.access.roles) > 0 || len(p.access.rules) > 0 }

// Conditions are the names of the conditions, in their order.
func (p *Plan) Conditions() *[]string { return p.access.names }

// Zone is where the hour and the weekday of conditions are read.
func (p *Plan) Zone() *time.Location { return p.access.zone }

// Authorize decides on a request whose body is known: first the principal's
// roles, then, if they allow it, every condition. What the condition's input
// says of the principal and of the time zone is filled in here. The error is a
// *fault.Error where the decision is no.
func (p *Plan) Authorize(g *Grant, in *condition.Input) (Decision, error) {
	const verb = "authn.Authorize"
	d := p.rbac(g, ScopeOf(llm.Operation(in.Op)))
	if d.Allowed && len(p.access.rules) > 0 {
		Describe(g, in)
		in.Zone = p.access.zone
		role := d.Role
		d = p.access.abac(in)
		d.Role = role
	}
	if !d.Allowed {
		return d, d.fault(verb)
	}
	return d, nil
}

// Describe fills in what an input says of the principal.
func Describe(g *Grant, in *condition.Input) {
	in.Key, in.Tenant, in.User, in.Tier = g.Key, g.Tenant, g.User, g.Tier
	in.Roles, in.Claims = g.roles, g.claims
}

// defaultRole is what a principal without a role has.
const defaultRole = "default"

var noRole = []string{defaultRole}

// rbac asks whether the roles cover the scope. Where the configuration defines
// none, roles are only names.
func (p *Plan) rbac(g *Grant, scope string) Decision {
	if len(p.access.roles) == 0 || g == p.open {
		return Decision{Allowed: true}
	}
	roles := g.roles
	if len(roles) == 0 {
		if _, ok := p.access.roles[defaultRole]; !ok {
			return Decision{Allowed: true}
		}
		roles = noRole
	}
	for _, role := range roles {
		if anyCovers(p.access.roles[role], scope) {
			return Decision{Allowed: true, Rule: role, Role: role}
		}
	}
	return Decision{
		Code: ForbiddenRBAC, Rule: strings.Join(roles, ","),
		Reason: fmt.Sprintf("None of the principal's roles permits this; it needs a role with %q.", scope),
	}
}

// abac asks the conditions one after another; the first that does not hold
// decides. A condition without a value has not said yes.
func (a *access) abac(in *condition.Input) Decision {
	var held uint64
	for i := range a.rules {
		r := &a.rules[i]
		if r.when != nil {
			if applies, err := r.when.Eval(in); err != nil {
				return r.undecided(held, err)
			} else if !applies {
				continue
			}
		}
		switch holds, err := r.require.Eval(in); {
		case err != nil:
			return r.undecided(held, err)
		case !holds:
			return r.denied(held)
		}
		held |= 1 << i
	}
	return Decision{Allowed: true, Held: held}
}

func (r *rule) denied(held uint64) Decision {
	return Decision{
		Code: ForbiddenABAC, Rule: r.name, Held: held,
		Reason: fmt.Sprintf("The condition %q does not hold for this request; ask who operates the gateway what it requires.", r.name),
	}
}

func (r *rule) undecided(held uint64, err error) Decision {
	return Decision{
		Code: ForbiddenABAC, Rule: r.name, Held: held, Err: err,
		Reason: fmt.Sprintf("The condition %q could not be decided for this request, so it is refused; ask who operates the gateway what it reads.", r.name),
	}
}

func sortedNames[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func list(names []string) string { return strings.Join(names, ", ") }
