// Package unpack reads the records of the ledger: those of its spool, and the
// batches that the databases keep.
package unpack

import "encoding/binary"

// Reader reads what is left of a record. Once something is wrong all that it
// reads is zero.
type Reader struct {
	Rest []byte
	Bad  bool
}

// Spoil notes that something is wrong.
func (r *Reader) Spoil() { r.Bad, r.Rest = true, nil }

// Whole is whether all was read and nothing was wrong.
func (r *Reader) Whole() bool { return !r.Bad && len(r.Rest) == 0 }

// Uvarint reads a number as encoding/binary writes it.
func (r *Reader) Uvarint() uint64 {
	if len(r.Rest) > 0 && r.Rest[0] < 0x80 { // most are so small
		n := uint64(r.Rest[0])
		r.Rest = r.Rest[1:]
		return n
	}
	n, size := binary.Uvarint(r.Rest)
	if size <= 0 {
		r.Spoil()
		return 0
	}
	r.Rest = r.Rest[size:]
	return n
}

// Varint reads a number with a sign.
func (r *Reader) Varint() int64 {
	n := r.Uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

// UpTo reads a number of at most most, which fits an int64; a larger one is wrong.
func (r *Reader) UpTo(most uint64) int64 {
	n := r.Uvarint()
	if n > most {
		r.Spoil()
		return 0
	}
	return int64(n)
}

// Many reads how many things follow, which have at least so many bytes each: no
// more are made room for than can be there.
func (r *Reader) Many(size int) int {
	return int(r.UpTo(uint64(len(r.Rest) / size)))
}

// Bytes reads so many bytes, which are a part of the record.
func (r *Reader) Bytes(n uint64) []byte {
	if n > uint64(len(r.Rest)) {
		r.Spoil()
		return nil
	}
	b := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return b
}

// Text reads bytes that follow their number.
func (r *Reader) Text() []byte { return r.Bytes(r.Uvarint()) }
