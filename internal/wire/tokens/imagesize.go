package tokens

// base64Text is a base64 text (RFC 4648) of which single bytes are decoded: the
// size of an image stands in a few of them, and not always the first.
type base64Text []byte

// at is the decoded byte i; false if the text ends before or is not base64
// there.
func (b base64Text) at(i int) (byte, bool) {
	first := i/3*4 + i%3
	if i < 0 || first+1 >= len(b) {
		return 0, false
	}
	hi, lo := sextet(b[first]), sextet(b[first+1])
	if hi > 63 || lo > 63 {
		return 0, false
	}
	shift := 2 * (i%3 + 1)
	return byte(hi<<shift | lo>>(6-shift)), true
}

// sextet is the value of a base64 digit, of either alphabet; 64 if it is none.
func sextet(c byte) uint {
	switch {
	case c >= 'A' && c <= 'Z':
		return uint(c - 'A')
	case c >= 'a' && c <= 'z':
		return uint(c-'a') + 26
	case c >= '0' && c <= '9':
		return uint(c-'0') + 52
	case c == '+' || c == '-':
		return 62
	case c == '/' || c == '_':
		return 63
	}
	return 64
}

// number reads n bytes from i on as a number; -1 if they are not there.
func (b base64Text) number(i, n int, bigEndian bool) int {
	v := 0
	for k := range n {
		at := i + k
		if !bigEndian {
			at = i + n - 1 - k
		}
		c, ok := b.at(at)
		if !ok {
			return -1
		}
		v = v<<8 | int(c)
	}
	return v
}

func (b base64Text) has(i int, s string) bool {
	for k := range len(s) {
		if c, ok := b.at(i + k); !ok || c != s[k] {
			return false
		}
	}
	return true
}

// largestSide is the longest side in pixels that is believed.
const largestSide = 1 << 20

// imageSize reads an image's size in pixels from its header: PNG, GIF, JPEG or
// WebP. It is false if the format is another one or the header is not whole.
func imageSize(b base64Text) (width, height int, ok bool) {
	switch {
	case b.has(0, "\x89PNG\r\n\x1a\n"):
		width, height = b.number(16, 4, true), b.number(20, 4, true)
	case b.has(0, "GIF87a"), b.has(0, "GIF89a"):
		width, height = b.number(6, 2, false), b.number(8, 2, false)
	case b.has(0, "RIFF") && b.has(8, "WEBP"):
		width, height = webpSize(b)
	case b.has(0, "\xff\xd8"):
		width, height = jpegSize(b)
	}
	if width <= 0 || height <= 0 || width > largestSide || height > largestSide {
		return 0, 0, false
	}
	return width, height, true
}

// webpSize reads the size from the first chunk, which is one of three kinds.
func webpSize(b base64Text) (width, height int) {
	switch {
	case b.has(12, "VP8X"): // extended: 24 bits each, less one
		return b.number(24, 3, false) + 1, b.number(27, 3, false) + 1
	case b.has(12, "VP8L"): // lossless: 14 bits each, less one
		bits := b.number(21, 4, false)
		if bits < 0 {
			return 0, 0
		}
		return bits&0x3fff + 1, bits>>14&0x3fff + 1
	case b.has(12, "VP8 "): // lossy: 14 bits each, and a scale above
		w, h := b.number(26, 2, false), b.number(28, 2, false)
		if w < 0 || h < 0 {
			return 0, 0
		}
		return w & 0x3fff, h & 0x3fff
	}
	return 0, 0
}

// jpegSize walks the segments up to the frame header (ITU-T T.81, B.2.2).
func jpegSize(b base64Text) (width, height int) {
	const segments = 1000
	at := 2
	for range segments {
		if c, ok := b.at(at); !ok || c != 0xff {
			return 0, 0
		}
		marker, _ := b.at(at + 1)
		if marker == 0xff { // a fill byte
			at++
			continue
		}
		if marker == 0x01 || marker >= 0xd0 && marker <= 0xd7 { // without a length
			at += 2
			continue
		}
		isFrame := marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc
		if isFrame {
			return b.number(at+7, 2, true), b.number(at+5, 2, true)
		}
		length := b.number(at+2, 2, true)
		if length < 2 {
			return 0, 0
		}
		at += 2 + length
	}
	return 0, 0
}
