package powercut

import (
	"math/rand/v2"
	"slices"
)

// Mode is what of the changes that no sync had covered survives a power cut.
type Mode int

// The modes. In all of them what a sync has covered survives.
const (
	// Lost: nothing.
	Lost Mode = iota
	// Whole: all of it, the operation during which the power went included.
	Whole
	// Torn: of each sector any of the contents that it had since the last sync,
	// of each file any of the sizes, of each name any of the files that it named,
	// without an order among them; or everything up to a write of which only some
	// sectors survive; or all but a few sectors.
	Torn
	// Gone: the disk went before the power. All of it survives, but for the
	// operation during which it went, of which nothing was done.
	Gone
)

// Modes are all of them.
var Modes = []Mode{Lost, Whole, Torn, Gone}

func (m Mode) String() string { return [...]string{"lost", "whole", "torn", "gone"}[m] }

// survive returns what is left of a file. What a failed sync has given up
// survives only by luck.
func (f *inode) survive(m Mode, rng *rand.Rand) []byte {
	b := slices.Clone(f.durable)
	switch m {
	case Whole, Gone:
		for _, c := range f.pending {
			if !c.stale && (m == Whole || !c.inflight) {
				b = c.apply(b)
			}
		}
	case Torn:
		b = f.tear(rng, b)
	}
	return b
}

// tear picks for each sector up to which of the changes it got to the platter. A
// truncation is done or not, and where it is not, nothing behind it is either:
// file systems keep that order.
func (f *inode) tear(rng *rand.Rand, b []byte) []byte {
	if len(f.pending) == 0 {
		return b
	}
	t := f.newTear(rng)
	size := int64(len(b))
	for i := range f.pending {
		c := &f.pending[i]
		if c.truncate {
			if t.size <= i {
				break
			}
			b, size = c.apply(b), c.off
			continue
		}
		end := c.off + int64(len(c.data))
		if t.size > i {
			size = max(size, end)
		}
		if end > int64(len(b)) {
			b = append(b, make([]byte, end-int64(len(b)))...)
		}
		for s := c.off / SectorSize; s*SectorSize < end; s++ {
			if t.upTo(s) > i {
				from, to := max(s*SectorSize, c.off), min((s+1)*SectorSize, end)
				copy(b[from:to], c.data[from-c.off:to-c.off])
			}
		}
	}
	return b[:size:size]
}

// tear says how many of the changes each sector, and the size, got.
type tear struct {
	size    int
	sectors map[int64]int
	other   func(sector int64) int
}

func (t *tear) upTo(sector int64) int {
	n, ok := t.sectors[sector]
	if !ok {
		n = t.other(sector)
		t.sectors[sector] = n
	}
	return n
}

func (f *inode) newTear(rng *rand.Rand) *tear {
	n := len(f.pending)
	t := &tear{sectors: map[int64]int{}}
	switch rng.IntN(4) {
	case 0: // no order at all
		t.size = rng.IntN(n + 1)
		t.other = func(int64) int { return rng.IntN(n + 1) }
	case 1: // all or nothing of each sector
		t.size = rng.IntN(2) * n
		t.other = func(int64) int { return rng.IntN(2) * n }
	case 2: // in order, up to one that is torn
		torn := rng.IntN(n)
		if rng.IntN(2) == 0 {
			torn = n - 1
		}
		t.size = torn + rng.IntN(2)
		t.other = func(int64) int { return torn + rng.IntN(2) }
	case 3: // all but a few sectors
		t.size = n
		t.other = func(int64) int { return n }
		for range 1 + rng.IntN(3) {
			c := &f.pending[rng.IntN(n)]
			if len(c.data) > 0 {
				t.sectors[(c.off+rng.Int64N(int64(len(c.data))))/SectorSize] = rng.IntN(n)
			}
		}
	}
	return t
}
