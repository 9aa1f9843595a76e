package peek

// seen remembers the keys of one object. Bodies have a dozen or two, so a
// short list that is compared by length and bytes is cheaper than a map; a
// body with more keys falls back to a map, so that no body costs quadratic time.
type seen struct {
	// text holds the keys' bytes end to end, as the scanner may reuse its own;
	// ends says where each ends. Offsets, not slices: a slice into the struct
	// would move it to the heap.
	text [512]byte
	ends [24]uint16
	n    int
	more map[string]struct{}
}

// add notes key and reports whether it is new, and whether there are too many.
func (s *seen) add(key []byte) (first, full bool) {
	if s.more != nil {
		_, dup := s.more[string(key)]
		s.more[string(key)] = struct{}{}
		return !dup, len(s.more) > maxKeys
	}
	start := 0
	for _, end := range s.ends[:s.n] {
		if string(s.text[start:end]) == string(key) {
			return false, false
		}
		start = int(end)
	}
	if s.n == len(s.ends) || start+len(key) > len(s.text) {
		s.grow()
		s.more[string(key)] = struct{}{}
		return true, false
	}
	copy(s.text[start:], key)
	s.ends[s.n] = uint16(start + len(key))
	s.n++
	return true, false
}

func (s *seen) grow() {
	s.more = make(map[string]struct{}, 2*len(s.ends))
	start := 0
	for _, end := range s.ends[:s.n] {
		s.more[string(s.text[start:end])] = struct{}{}
		start = int(end)
	}
}
