package tokens

import "testing"

func TestFamilyOf(t *testing.T) {
	for model, want := range map[string]Family{
		"gpt-4o":                                 FamilyO200k,
		"gpt-4o-mini-2024-07-18":                 FamilyO200k,
		"chatgpt-4o-latest":                      FamilyO200k,
		"gpt-4.1-nano":                           FamilyO200k,
		"gpt-4.5-preview":                        FamilyO200k,
		"gpt-5":                                  FamilyO200k,
		"gpt-5.1-codex":                          FamilyO200k,
		"o1":                                     FamilyO200k,
		"o3-mini":                                FamilyO200k,
		"o4-mini":                                FamilyO200k,
		"gpt-oss-120b":                           FamilyO200k,
		"openai/gpt-oss-20b":                     FamilyO200k,
		"openai/gpt-4o":                          FamilyO200k,
		"OpenAI/GPT-4o":                          FamilyO200k,
		"ft:gpt-4o-mini-2024-07-18:acme::9abc":   FamilyO200k,
		"openai/ft:gpt-3.5-turbo:acme::9abc":     FamilyCL100k,
		"gpt-4":                                  FamilyCL100k,
		"gpt-4-turbo":                            FamilyCL100k,
		"gpt-4-0613":                             FamilyCL100k,
		"gpt-3.5-turbo":                          FamilyCL100k,
		"gpt-35-turbo":                           FamilyCL100k,
		"text-embedding-3-small":                 FamilyCL100k,
		"text-embedding-ada-002":                 FamilyCL100k,
		"claude-sonnet-4-5":                      FamilyClaude,
		"anthropic/claude-3-opus":                FamilyClaude,
		"anthropic.claude-3-haiku-20240307-v1:0": FamilyClaude,
		"gemini-2.5-pro":                         FamilyGemini,
		"models/gemini-2.5-flash":                FamilyGemini,
		"meta-llama/Llama-3.3-70B-Instruct":      FamilyLlama,
		"mistral-large-latest":                   FamilyMistral,
		"Qwen/Qwen3-32B":                         FamilyQwen,
		"deepseek-chat":                          FamilyDeepSeek,
		"my-own-model":                           FamilyUnknown,
		"o":                                      FamilyUnknown,
		"":                                       FamilyUnknown,
		"openai/":                                FamilyUnknown,
	} {
		if got := FamilyOf(model); got != want {
			t.Errorf("%q is of the family %s, want %s", model, got, want)
		}
	}
}

// A row that stands behind a prefix of itself, or in another letter's list, would
// never count.
func TestFamilyRowsAreReached(t *testing.T) {
	for _, rows := range byPrefix {
		for _, row := range rows {
			if got := FamilyOf(row.text); got != row.family {
				t.Errorf("%q is of the family %s, and its row says %s", row.text, got, row.family)
			}
		}
	}
}

func TestFamilyEncodings(t *testing.T) {
	for f := range families {
		e := f.Encoding()
		if exact := f == FamilyO200k || f == FamilyCL100k; exact != (e != nil) {
			t.Errorf("%s has the encoding %v", f, e)
		} else if exact && e.Name() != f.String() {
			t.Errorf("%s has the encoding %s", f, e.Name())
		}
	}
	if Family(200).String() != "unknown" || Family(200).Encoding() != nil {
		t.Error("a family that is none has an encoding or a name")
	}
}
