package edge

import (
	"encoding/base32"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/wire"
)

// Credential is what a client presented, and where.
type Credential struct {
	Secret string
	// Basic is set where the client tried a user name and password.
	Basic bool
}

// Credential finds the API key where each SDK puts it: Authorization: Bearer,
// x-api-key, x-goog-api-key, api-key, or the query parameter key.
func (x *Exchange) Credential() Credential {
	h := x.r.Header
	if auth := wire.First(h, "Authorization"); auth != "" {
		scheme, rest, _ := strings.Cut(auth, " ")
		if strings.EqualFold(scheme, "Bearer") {
			return Credential{Secret: strings.TrimSpace(rest)}
		}
		if strings.EqualFold(scheme, "Basic") {
			return Credential{Basic: true}
		}
	}
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key", "Api-Key"} {
		if v := wire.First(h, name); v != "" {
			return Credential{Secret: strings.TrimSpace(v)}
		}
	}
	if x.r.URL.RawQuery != "" {
		return Credential{Secret: x.r.URL.Query().Get("key")}
	}
	return Credential{}
}

// Query is a parameter of the request's query, "" if it is not there.
func (x *Exchange) Query(name string) string {
	if x.r.URL.RawQuery == "" {
		return ""
	}
	return x.r.URL.Query().Get(name)
}

// Region is where the request comes from, as a trusted proxy says; "" where
// none does.
func (x *Exchange) Region() string {
	if v := wire.First(x.r.Header, "X-Headgate-Region"); v != "" && x.Trusted() {
		return v
	}
	return ""
}

// Client is the address of the client: the peer's, or where the peer is a
// trusted proxy, the last address that a trusted one did not add.
func (x *Exchange) Client() string {
	peer := host(x.r.RemoteAddr)
	if !x.Trusted() {
		return peer
	}
	hops := strings.Split(strings.Join(x.r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		ip, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		peer = ip.Unmap().String()
		if !x.plan.trusts(ip) {
			break
		}
	}
	return peer
}

// Trusted is whether the peer is a proxy whose X-Forwarded-* headers are to be
// believed.
func (x *Exchange) Trusted() bool {
	if len(x.plan.trusted) == 0 {
		return false
	}
	ip, err := netip.ParseAddr(host(x.r.RemoteAddr))
	return err == nil && x.plan.trusts(ip)
}

func (p *Plan) trusts(ip netip.Addr) bool {
	for _, prefix := range p.trusted {
		if prefix.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}

func host(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		addr = addr[:i]
	}
	return strings.Trim(addr, "[]")
}

// Agent is the client's User-Agent, cut short.
func (x *Exchange) Agent() string {
	return fault.Legible(wire.First(x.r.Header, "User-Agent"))
}

// Header is the request's header.
func (x *Exchange) Header() http.Header { return x.r.Header }

// saneID is whether a client's request id may be taken over: 1 to 128 visible
// ASCII characters.
func saneID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] >= 0x7f || id[i] == '"' || id[i] == '\\' {
			return false
		}
	}
	return true
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// mintID makes a request id of 120 random bits.
func mintID() string {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(raw[8:], rand.Uint64())
	var out [28]byte
	copy(out[:], "req_")
	idEncoding.Encode(out[4:], raw[:15])
	return string(out[:])
}
