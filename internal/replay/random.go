package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// Randomness is a function of the run's seed, the chain it belongs to and the
// path of the coroutine, and nothing else:
//
//	digest(use, n) = SHA-256("engined/1/" use 0 chain 0 path 0 seed:8 n:8)
//	Rand           = PCG(digest("rand", 0)[0:8], digest("rand", 0)[8:16])
//	NewID, n-th    = UUID version 7: the time of the input in ms, digest("id", n)
//
// (numbers little endian). Each coroutine has a source of its own, so that a
// draw added to one branch does not change what its siblings draw: the same
// reason for which operations are numbered by coroutine. NewID counts apart from
// Rand for that reason, too. PCG, and not ChaCha8, because its state is 16 bytes
// and workflow code has no secrets to draw; the methods of rand.Rand are as
// stable as Go's own regression tests make them.
//
// The chain is mixed in because seeds have 64 bits, which is not enough for ids
// that must differ between all runs; it survives a reset, so that what is folded
// again draws the same.

func (co *Coroutine) digest(use string, n uint64) [sha256.Size]byte {
	s := co.run.started
	var buf [192]byte
	b := append(buf[:0], "engined/1/"...)
	for _, part := range [...]string{use, s.ChainId, co.path} {
		b = append(append(b, part...), 0)
	}
	b = binary.LittleEndian.AppendUint64(b, s.Seed)
	b = binary.LittleEndian.AppendUint64(b, n)
	return sha256.Sum256(b)
}

func (co *Coroutine) random() *rand.Rand {
	if co.rng == nil {
		d := co.digest("rand", 0)
		co.rng = rand.New(rand.NewPCG(binary.LittleEndian.Uint64(d[0:]), binary.LittleEndian.Uint64(d[8:])))
	}
	return co.rng
}

func (co *Coroutine) newID() string {
	co.ids++
	d := co.digest("id", co.ids)
	id := d[:16]
	ms := co.run.time().UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	var text [36]byte
	at := 0
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			text[at] = '-'
			at++
		}
		hex.Encode(text[at:], id[:n])
		id, at = id[n:], at+2*n
	}
	return string(text[:])
}
