package tokens

import "github.com/headgate-ai/headgate/internal/wire/jsonspan"

// meter estimates the texts of a request, one after the other. Together they are
// measured as a whole up to so many bytes. Of a text that goes beyond, evenly spread
// chunks are measured: as many bytes again if it is all there is, and the fewer the
// more stands before it.
type meter struct {
	weights *weights
	whole   int // bytes

	bytes    int     // of the texts
	measured float64 // how many of them the sums stand for
	sum      float64 // of weights
	counts   [classes]float64
	next     int    // where in the next text the next chunk begins, or has begun before it
	spread   uint32 // makes the gaps between chunks uneven
}

const (
	// wholeMeasured is up to where texts are measured as a whole whose tokens nobody
	// knows better: the error of the estimate is several times that of the chunks.
	wholeMeasured = 4 << 10
	// wholeCorrected is so for texts of which samples are counted exactly, which leave
	// little other error, and cost far more.
	wholeCorrected = 8 << 10
	// chunk is how many bytes are measured at a stretch: few, because many small samples
	// say more of a text than a few large ones, and not fewer than memory gives at once.
	chunk = 64
)

// beyond is whether a text of so many bytes is measured by chunks.
func (m *meter) beyond(bytes int) bool { return bytes > m.whole-m.bytes }

// add estimates a text.
func (m *meter) add(text []byte) {
	if m.beyond(len(text)) {
		m.addChunks(text, false)
		return
	}
	m.bytes += len(text)
	sum, counts := m.weights.measure(kindLine, text)
	m.take(sum, &counts, len(text), 1)
}

// addChunks estimates a text by chunks of it. If it is quoted, it is the inside of a
// JSON string, with its escapes.
func (m *meter) addChunks(text []byte, quoted bool) {
	m.bytes += len(text)
	// Each byte that is measured stands for so many, as if this text and those before
	// it were one.
	times := float64(m.bytes) / float64(m.whole)
	gap := uint64((times - 1) * chunk)
	for m.next < len(text) {
		end := m.next + chunk
		m.addChunk(text, max(m.next, 0), min(end, len(text)), quoted, times)
		if end > len(text) {
			break // the chunk goes on in the next text
		}
		// Multiples of the golden ratio make the gaps between half and one and a half
		// times the average, and fall in with no rhythm that a text may have.
		m.spread += 0x9e3779b9
		m.next = end + int(gap/2+gap*uint64(m.spread)>>32)
	}
	m.next -= len(text)
}

// addChunk adds the chunk of a text between two offsets.
func (m *meter) addChunk(text []byte, from, to int, quoted bool, times float64) {
	var room [chunk]byte
	part, prev := text[from:to], uint8(kindLine)
	switch {
	case quoted:
		var last byte
		if part, last = jsonspan.Excerpt(room[:0], text, from, to); from > 0 {
			prev = kindOf[last]
		}
	case from > 0:
		prev = kindOf[text[from-1]]
	}
	sum, counts := m.weights.measure(prev, part)
	m.take(sum, &counts, to-from, times)
}

// take adds what so many bytes were measured at, each of which stands for so many.
func (m *meter) take(sum int64, counts *classCounts, bytes int, times float64) {
	m.measured += times * float64(bytes)
	m.sum += times * float64(sum)
	for c, n := range counts {
		m.counts[c] += times * float64(n)
	}
}

// result is the estimate of all texts, in tokens, and how many characters of each
// class they have.
func (m *meter) result() (tokens float64, counts classCounts) {
	// The chunks stand for a little more or less than there is.
	times := float64(m.bytes) / max(m.measured, 1)
	for c, n := range m.counts {
		counts[c] = int(times * n)
	}
	return max(times*m.sum/weightUnit, counts.least()), counts
}
