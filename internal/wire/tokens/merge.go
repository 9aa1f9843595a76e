package tokens

// shortPiece is the length in bytes up to which the pair to merge is found by
// looking at all of them; beyond it by a heap.
const shortPiece = 64

// mergeShort merges the pairs of the piece text[i:j], the lowest rank first and
// the leftmost of equal ones, until none is a token, and returns how many parts
// are left. If parts is not nil it gets where each part begins in the piece, and
// the length behind them.
func (e *Encoding) mergeShort(text []byte, i, j int, parts *[shortPiece + 1]uint8) int {
	// ranks[k] is that of the token which parts k and k+1 would make.
	var ranks [shortPiece]uint32
	var own [shortPiece + 1]uint8
	if parts == nil {
		parts = &own
	}
	n := j - i
	for k := range n + 1 {
		parts[k] = uint8(k)
	}
	for k := range n - 1 {
		ranks[k] = e.table.pair(text[i+k], text[i+k+1])
	}
	for n > 1 {
		best, at := none, 0
		for k, rank := range ranks[:n-1] {
			if rank < best {
				best, at = rank, k
			}
		}
		if best == none {
			break
		}
		copy(parts[at+1:n], parts[at+2:n+1])
		copy(ranks[at:n-2], ranks[at+1:n-1])
		n--
		if at+1 < n {
			ranks[at] = e.table.lookup(text, i+int(parts[at]), i+int(parts[at+2]))
		}
		if at > 0 {
			ranks[at-1] = e.table.lookup(text, i+int(parts[at-1]), i+int(parts[at+1]))
		}
	}
	return n
}
