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

// laneOf is one in the lane of packed counts that the class of a kind has. The
// bytes behind the first of a character count for nothing: the first one counts
// for all of them.
var laneOf = [byteKinds]uint64{
	kindVowel: laneLatin, kindConsonant: laneLatin, kindRare: laneLatin, kindUpper: laneLatin,
	kindLatin: laneLatin, kindCombining: laneLatin, kindGeneral: laneLatin,
	kindApostrophe: laneLatin, kindStop: laneLatin, // as they stand in prose

	kindKana: laneCJK, kindHan: laneCJK, kindHangul: laneCJK, kindWide: laneCJK,

	kindGreek: laneScript, kindCyrillic: laneScript, kindHebrew: laneScript,
	kindArabic: laneScript, kindIndic: laneScript, kindE1: laneScript,

	kindDigit: laneDigit,

	kindQuote: laneCode, kindOpen: laneCode, kindClose: laneCode, kindJoin: laneCode,
	kindOperator: laneCode, kindControl: laneCode, kindEmoji: laneCode, kindInvalid: laneCode,

	kindSpace: laneBlank, kindLine: laneBlank, kindTab: laneBlank,
}

const (
	laneLatin  = 1 << (ClassLatin * laneBits)
	laneCJK    = 1 << (ClassCJK * laneBits)
	laneScript = 1 << (ClassScript * laneBits)
	laneDigit  = 1 << (ClassDigit * laneBits)
	laneCode   = 1 << (ClassCode * laneBits)
	laneBlank  = 1 << (ClassBlank * laneBits)
)
