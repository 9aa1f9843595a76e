package tokens

// The kinds of bytes that the estimate tells apart.
const (
	kindVowel      = iota // a small letter, by how common it is
	kindConsonant         // n r s t l d h c m
	kindRare              // all others
	kindUpper             //
	kindDigit             //
	kindSpace             //
	kindLine              // CR and LF
	kindTab               //
	kindStop              // , . and other marks that stand alone in prose
	kindQuote             // " and `
	kindApostrophe        //
	kindOpen              // ( [ { <
	kindClose             // ) ] } >
	kindJoin              // _ - / \ and @, which stand in names and paths
	kindOperator          // = + * and other signs
	kindControl           //
	kindTail              // the second byte of a character and those behind it
	kindLatin             // the first byte, from here on: C2 … CB, Latin with accents
	kindCombining         // CC, CD
	kindGreek             // CE, CF
	kindCyrillic          // D0 … D3
	kindHebrew            // D4 … D7, Armenian, too
	kindArabic            // D8 … DF
	kindIndic             // E0, Thai, too
	kindE1                // E1: Vietnamese, Georgian, Greek with accents
	kindGeneral           // E2: dashes, quotes, symbols
	kindKana              // E3, the CJK punctuation, too
	kindHan               // E4 … E9
	kindHangul            // EA … ED
	kindWide              // EE, EF: full-width forms
	kindEmoji             // F0 … F4
	kindInvalid           // bytes that UTF-8 does not have
)

// classOfKind is the class of the characters that a byte of the kind begins. The
// bytes behind the first of a character count for nothing: the first one counts for
// all of them.
var classOfKind = [byteKinds]Class{
	kindVowel: ClassLatin, kindConsonant: ClassLatin, kindRare: ClassLatin, kindUpper: ClassLatin,
	kindLatin: ClassLatin, kindCombining: ClassLatin, kindGeneral: ClassLatin,
	kindApostrophe: ClassLatin, kindStop: ClassLatin, // as they stand in prose

	kindKana: ClassCJK, kindHan: ClassCJK, kindHangul: ClassCJK, kindWide: ClassCJK,

	kindGreek: ClassScript, kindCyrillic: ClassScript, kindHebrew: ClassScript,
	kindArabic: ClassScript, kindIndic: ClassScript, kindE1: ClassScript,

	kindDigit: ClassDigit,

	kindQuote: ClassCode, kindOpen: ClassCode, kindClose: ClassCode, kindJoin: ClassCode,
	kindOperator: ClassCode, kindControl: ClassCode, kindEmoji: ClassCode, kindInvalid: ClassCode,

	kindSpace: ClassBlank, kindLine: ClassBlank, kindTab: ClassBlank,

	kindTail: classes,
}
