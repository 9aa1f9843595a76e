package authn

import (
	"strings"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// covers is whether a scope, possibly with * for a part, includes another.
func covers(have, want string) bool {
	if have == "inference" {
		return want != "models:read"
	}
	return setting.Match(have, want)
}

// scopes are those of the operations.
var scopes = map[llm.Operation]string{
	llm.Chat: "chat:write", llm.Completion: "chat:write", llm.Responses: "chat:write", llm.CountTokens: "chat:write",
	llm.Embeddings: "embeddings:write", llm.Moderations: "moderations:write", llm.Images: "images:write",
	llm.Speech: "audio:write", llm.Transcriptions: "audio:write",
	llm.ListModels: "models:read", llm.GetModel: "models:read",
}

// ScopeOf is the scope that an operation needs, "" for one that is open to
// every key.
func ScopeOf(op llm.Operation) string { return scopes[op] }

// known lists the scopes that a key or a role can be given.
func known() []string {
	return []string{"inference", "chat:write", "embeddings:write", "moderations:write", "images:write", "audio:write", "models:read", "*"}
}

func knownScope(s string) bool {
	for _, op := range scopes {
		if covers(s, op) {
			return true
		}
	}
	return false
}

// canonicalScope accepts the spelling with a dot, as role lists use it.
func canonicalScope(s string) string { return strings.ReplaceAll(s, ".", ":") }

func canonicalScopes(all []string) []string {
	var out []string
	for _, s := range all {
		out = append(out, canonicalScope(s))
	}
	return out
}

func checkScopes(p *setting.Problems, path string, all []string) {
	for j, s := range all {
		switch {
		case strings.HasPrefix(canonicalScope(s), "admin:"):
			p.Add(setting.Index(path, j), "no scope opens the admin API, so %q would do nothing; operators use server.admin.token, and clients' scopes are %s", s, strings.Join(known(), ", "))
		case !knownScope(canonicalScope(s)):
			p.Add(setting.Index(path, j), "unknown scope %q; known scopes are %s", s, strings.Join(known(), ", "))
		}
	}
}
