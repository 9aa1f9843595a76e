package tokens

// node is a part of a long piece, found by where it begins.
type node struct {
	prev, next int32  // where its neighbours begin
	rank       uint32 // of the token that it would make with the next one
}

// candidate is a merge that may be done: its rank, and below it where the left
// part begins, so that the least is the one to do first.
type candidate uint64

// leastWindow is how many bytes of a long piece are merged at a time.
const leastWindow = 256

// mergeLong counts the tokens of a piece of any length, and appends their ids
// to dst if add is set.
//
// It merges a window at a time, in memory that does not grow with the piece.
// Where windows meet it relies on this: a sequence of tokens is what byte-pair
// encoding makes of a text if, and only if, it makes each two neighbours of
// their two tokens' text. (Neighbours in the encoding of a part are such a pair,
// and a merge across any boundary would have shown in one of them.) So a window
// begins with the last token that is kept of the one before, and if that token
// comes out again, the encodings may be joined there. If it does not, the last
// step, or else all of them, are taken back and the windows are made larger, up
// to the whole piece, which is the plain algorithm.
func (e *Encoding) mergeLong(piece []byte, window int, s *Scratch, dst []int, add bool) (n int, ids []int) {
	first := seam{ids: len(dst)}
	good, here := first, first
	for {
		part := piece[here.from:min(here.from+window, len(piece))]
		e.mergeWindow(part, s)
		if here.end > here.from && int(s.nodes[0].next) != here.end-here.from {
			if here == good {
				good = first
			}
			here, dst = good, dst[:good.ids]
			window *= 2
			continue
		}
		good = here
		last := here.from+len(part) == len(piece)
		keep := len(part)
		if !last {
			keep = s.seam(len(part) - window/4)
		}
		if keep == 0 {
			window *= 2
			continue
		}
		dst = e.accept(part, keep, s, &here, dst, add)
		if last {
			return here.tokens, dst
		}
	}
}

// accept counts a window's tokens up to a byte, and moves on to there.
func (e *Encoding) accept(part []byte, keep int, s *Scratch, here *seam, dst []int, add bool) []int {
	at := 0
	for at < keep {
		next := int(s.nodes[at].next)
		if add {
			dst = append(dst, int(e.table.lookup(part, at, next)))
		}
		here.tokens++
		at = next
	}
	here.from += at
	here.ids = len(dst)
	if at < len(part) {
		here.end = here.from + int(s.nodes[at].next) - at
	}
	return dst
}

// seam is a place between two tokens where a window may begin, and what has
// been counted up to there.
type seam struct {
	from, end   int // the token behind it, with which the window has to begin
	tokens, ids int // how many there are before it, and how long the ids are
}

// seam is where the last token begins that ends at most at a byte of the
// window; 0 if only the first one does, or none.
func (s *Scratch) seam(most int) int {
	begin := 0
	for next := int(s.nodes[0].next); next < len(s.nodes); {
		end := int(s.nodes[next].next)
		if end > most {
			break
		}
		begin, next = next, end
	}
	return begin
}

// mergeWindow does what mergeShort does in O(n log n). The parts are left in
// s.nodes, each at the index where it begins.
func (e *Encoding) mergeWindow(piece []byte, s *Scratch) {
	n := len(piece)
	s.grow(n)
	nodes := s.nodes
	for k := range nodes {
		nodes[k] = node{int32(k) - 1, int32(k) + 1, none}
	}
	for k := range n - 1 {
		if rank := e.table.pair(piece[k], piece[k+1]); rank != none {
			nodes[k].rank = rank
			s.heap = append(s.heap, candidate(rank)<<32|candidate(k))
		}
	}
	s.heapify()
	for {
		at := s.take()
		if at < 0 {
			return
		}
		gone := nodes[at].next
		behind := nodes[gone].next
		nodes[gone].rank = none
		nodes[at].next = behind
		if int(behind) < n {
			nodes[behind].prev = at
		}
		e.rate(piece, at, s)
		if before := nodes[at].prev; before >= 0 {
			e.rate(piece, before, s)
		}
	}
}

// rate looks up what part at would make with the next one.
func (e *Encoding) rate(piece []byte, at int32, s *Scratch) {
	rank := none
	if next := s.nodes[at].next; int(next) < len(piece) {
		rank = e.table.lookup(piece, int(at), int(s.nodes[next].next))
	}
	if s.nodes[at].rank = rank; rank != none {
		s.push(candidate(rank)<<32 | candidate(at))
	}
}

// grow makes room for a piece of n bytes.
func (s *Scratch) grow(n int) {
	if cap(s.nodes) < n {
		s.nodes = make([]node, n)
	}
	s.nodes = s.nodes[:n]
	if cap(s.heap) < n {
		s.heap = make([]candidate, 0, n)
	}
	s.heap = s.heap[:0]
}

// take removes the next merge to do and returns where its left part begins, -1
// if there is none. A candidate whose part has changed since is passed over.
func (s *Scratch) take() int32 {
	for len(s.heap) > 0 {
		top := s.heap[0]
		last := len(s.heap) - 1
		s.heap[0] = s.heap[last]
		s.heap = s.heap[:last]
		s.down(0)
		if at := int32(top & (1<<32 - 1)); s.nodes[at].rank == uint32(top>>32) {
			return at
		}
	}
	return -1
}

func (s *Scratch) push(c candidate) {
	s.heap = append(s.heap, c)
	h, at := s.heap, len(s.heap)-1
	for at > 0 {
		parent := (at - 1) / 2
		if h[parent] <= c {
			break
		}
		h[at], at = h[parent], parent
	}
	h[at] = c
}

func (s *Scratch) heapify() {
	for at := len(s.heap)/2 - 1; at >= 0; at-- {
		s.down(at)
	}
}

// down moves the candidate at an index to where it belongs below.
func (s *Scratch) down(at int) {
	h := s.heap
	if at >= len(h) {
		return
	}
	c := h[at]
	for {
		child := 2*at + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right] < h[child] {
			child = right
		}
		if h[child] >= c {
			break
		}
		h[at], at = h[child], child
	}
	h[at] = c
}
