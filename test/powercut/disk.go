package powercut

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

const (
	// SectorSize is what a disk writes whole or not at all.
	SectorSize = 512
	// cachePage is the unit in which a page cache writes back.
	cachePage = 4096
)

// Kind is the kind of an operation that changes what is on a disk, or makes it
// durable.
type Kind string

// The kinds.
const (
	OpCreate  Kind = "create"
	OpDelete  Kind = "delete"
	OpWrite   Kind = "write"
	OpTrim    Kind = "truncate"
	OpSync    Kind = "sync"
	OpSyncDir Kind = "syncdir"
)

// Op is an operation, as a story tells it.
type Op struct {
	N    int // its ordinal, from 1
	Kind Kind
	Name string
	Off  int64
	Len  int
}

func (o Op) String() string {
	return fmt.Sprintf("%4d %-8s %s %d+%d", o.N, o.Kind, o.Name, o.Off, o.Len)
}

// Disk is a directory on a disk that keeps apart what is on the platter and what
// only the page cache knows. Every operation that changes or syncs anything has
// an ordinal, from 1; a fault is armed for one of them. Its methods may be called
// by any goroutine.
type Disk struct {
	vfsName string
	shm     string // of the shared memory, which no disk keeps

	mu    sync.Mutex
	files map[string]*inode // as the processes see them
	// names has, for each name, what it may stand for after a power cut: the
	// durable one, then each one since, in order; nil is none.
	names map[string][]*inode
	ops   []Op
	fault fault
	dead  bool // nothing answers any more
	fired Fault
	at    Op // which the fault hit
	lies  Lies
	watch func(fork *Disk, ops int)
}

// inode is a file.
type inode struct {
	durable []byte
	live    []byte
	pending []change
	locks   locks
}

// change is a write or a truncation that no sync has covered.
type change struct {
	off      int64
	data     []byte
	truncate bool // to off
	inflight bool // the power went while it ran
	// stale changes were given up by a sync that failed: the page cache shows
	// them, and no later sync brings them to the platter.
	stale bool
}

// Fault is what goes wrong at an ordinal.
type Fault int

// The faults.
const (
	// NoFault is none.
	NoFault Fault = iota
	// Cut lets the power go during the operation: from it on nothing answers.
	Cut
	// FailSync fails the next sync with EIO; what it was to bring to the platter
	// is marked clean all the same, and never gets there.
	FailSync
	// FailWrite fails the next write with EIO; nothing of it is done.
	FailWrite
	// Full fails the next write for lack of space; a part of it may be done.
	Full
)

func (f Fault) String() string {
	return [...]string{"no fault", "power cut", "failed sync", "failed write", "full disk"}[f]
}

type fault struct {
	what Fault
	at   int
	rare bool // not at a write to the log
}

// Lies are planted bugs: what a bad disk, or a bad layer above it, would do.
type Lies struct {
	// NoSync lets syncs of these kinds of file do nothing and succeed.
	NoSync func(name string) bool
	// RetrySync repeats a sync that failed, and believes the second answer.
	RetrySync bool
	// NoRewrite lets the rewriting of a file do nothing and succeed.
	NoRewrite bool
}

// NewDisk makes an empty disk. Release it.
func NewDisk() *Disk {
	d := &Disk{files: map[string]*inode{}, names: map[string][]*inode{}}
	d.register()
	return d
}

// Arm has the fault happen at the n-th operation from now, 1 being the next. A
// fault that is only for syncs or writes happens at the first of these from
// there on.
func (d *Disk) Arm(f Fault, n int) { d.arm(fault{what: f, at: n}) }

// ArmRare is Arm for an operation that is no write to the log, of which there are
// most.
func (d *Disk) ArmRare(f Fault, n int) { d.arm(fault{what: f, at: n, rare: true}) }

func (d *Disk) arm(f fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.at += len(d.ops)
	d.fault, d.fired = f, NoFault
}

// Fired returns the fault that has happened since Arm, and the operation that it
// hit, or NoFault.
func (d *Disk) Fired() (Fault, Op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fired, d.at
}

// Watch has f called before each operation with a copy of the disk, to release,
// and the number of operations before. nil ends it.
func (d *Disk) Watch(f func(fork *Disk, ops int)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watch = f
}

// Ops returns how many operations there were.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ops)
}

// Trace returns the last operations, at most n.
func (d *Disk) Trace(n int) []Op {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.ops[max(0, len(d.ops)-n):])
}

// Lie plants bugs; they go with the disk through power cuts.
func (d *Disk) Lie(l Lies) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lies = l
}

// Halt ends everything that runs on the disk, as the end of its process would.
func (d *Disk) Halt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

// Clone returns the disk with its page cache, for another process: nothing is
// more durable than before.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clone()
}

func (d *Disk) clone() *Disk {
	c := &Disk{files: map[string]*inode{}, names: map[string][]*inode{}, lies: d.lies}
	copies := map[*inode]*inode{nil: nil}
	for _, states := range d.names {
		for _, f := range states {
			if copies[f] == nil && f != nil {
				copies[f] = f.clone()
			}
		}
	}
	for name, states := range d.names {
		for _, f := range states {
			c.names[name] = append(c.names[name], copies[f])
		}
	}
	for name, f := range d.files {
		c.files[name] = copies[f]
	}
	c.register()
	return c
}

func (f *inode) clone() *inode {
	c := &inode{durable: slices.Clone(f.durable), live: slices.Clone(f.live), pending: slices.Clone(f.pending)}
	for i := range c.pending {
		c.pending[i].inflight = false // it is done, or it is not in here
	}
	return c
}

// Survive returns the disk as the power finds it when it comes back.
func (d *Disk) Survive(m Mode, rng *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &Disk{files: map[string]*inode{}, names: map[string][]*inode{}, lies: d.lies}
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		states := d.names[name]
		var f *inode
		switch m {
		case Lost:
			f = states[0]
		case Torn:
			f = states[rng.IntN(len(states))]
		default:
			f = states[len(states)-1]
		}
		if f == nil {
			continue
		}
		data := f.survive(m, rng)
		kept := &inode{durable: data, live: slices.Clone(data)}
		c.files[name], c.names[name] = kept, []*inode{kept}
	}
	c.register()
	return c
}

// Flip changes one bit of a file, on the platter and in the page cache.
func (d *Disk) Flip(name string, bit int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[name]
	for _, b := range [][]byte{f.live, f.durable} {
		if at := bit / 8; at < int64(len(b)) {
			b[at] ^= 1 << (bit % 8)
		}
	}
}

// Sum tells disks of different contents apart. What is not synced does not count.
func (d *Disk) Sum() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var h maphash.Hash
	h.SetSeed(sumSeed)
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		h.WriteString(name)
		h.Write(d.files[name].durable)
	}
	return h.Sum64()
}

var sumSeed = maphash.MakeSeed()

// Content returns a copy of a file as processes see it, or nil.
func (d *Disk) Content(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.files[name]; f != nil {
		return slices.Clone(f.live)
	}
	return nil
}

// step counts an operation and says what becomes of it. The lock is held.
func (d *Disk) step(kind Kind, name string, off int64, n int) Fault {
	if d.watch != nil {
		d.watch(d.clone(), len(d.ops))
	}
	d.ops = append(d.ops, Op{len(d.ops) + 1, kind, name, off, n})
	if d.fault.what == NoFault || len(d.ops) < d.fault.at || d.fault.rare && kind == OpWrite && name == WAL {
		return NoFault
	}
	switch d.fault.what {
	case FailSync:
		if kind != OpSync && kind != OpSyncDir {
			return NoFault
		}
	case FailWrite, Full:
		if kind != OpWrite {
			return NoFault
		}
	case Cut:
		d.dead = true
	}
	d.fired, d.at = d.fault.what, d.ops[len(d.ops)-1]
	d.fault = fault{}
	return d.fired
}

// link gives the name another meaning.
func (d *Disk) link(name string, f *inode) {
	if f == nil {
		delete(d.files, name)
	} else {
		d.files[name] = f
	}
	if d.names[name] == nil {
		d.names[name] = []*inode{nil}
	}
	d.names[name] = append(d.names[name], f)
}

// syncNames makes the directory durable.
func (d *Disk) syncNames() {
	for name, states := range d.names {
		last := states[len(states)-1]
		if last == nil {
			delete(d.names, name)
			continue
		}
		d.names[name] = []*inode{last}
	}
}

// write changes what processes see. A page of the cache that is written to
// again is written back whole.
func (f *inode) write(off int64, data []byte, inflight bool) {
	end := off + int64(len(data))
	if end > int64(len(f.live)) {
		f.live = append(f.live, make([]byte, end-int64(len(f.live)))...)
	}
	copy(f.live[off:], data)
	if f.hasStale() {
		off -= off % cachePage
		end = min((end+cachePage-1)/cachePage*cachePage, int64(len(f.live)))
		f.dirty(off, end)
	}
	f.pending = append(f.pending, change{off: off, data: slices.Clone(f.live[off:end]), inflight: inflight})
}

func (f *inode) hasStale() bool {
	return slices.ContainsFunc(f.pending, func(c change) bool { return c.stale })
}

// dirty ends what is stale in a part of the file: it is written again, or cut off.
func (f *inode) dirty(off, end int64) {
	var kept []change
	for _, c := range f.pending {
		last := c.off + int64(len(c.data))
		if !c.stale || last <= off || end <= c.off {
			kept = append(kept, c)
			continue
		}
		if c.off < off {
			kept = append(kept, change{off: c.off, data: c.data[:off-c.off], stale: true})
		}
		if end < last {
			kept = append(kept, change{off: end, data: c.data[end-c.off:], stale: true})
		}
	}
	f.pending = kept
}

func (f *inode) truncate(size int64, inflight bool) {
	f.dirty(size, math.MaxInt64)
	c := change{off: size, truncate: true, inflight: inflight}
	f.live = c.apply(f.live)
	f.pending = append(f.pending, c)
}

// sync brings to the platter what is not given up.
func (f *inode) sync() {
	for _, c := range f.pending {
		if !c.stale {
			f.durable = c.apply(f.durable)
		}
	}
	f.pending = slices.DeleteFunc(f.pending, func(c change) bool { return !c.stale })
}

// giveUp is a sync that failed: the pages are clean now. A truncation is not of
// the page cache, and stays to be done.
func (f *inode) giveUp() {
	for i := range f.pending {
		f.pending[i].stale = !f.pending[i].truncate
	}
}

func (c *change) apply(b []byte) []byte {
	end := c.off + int64(len(c.data))
	if end > int64(len(b)) {
		b = append(b, make([]byte, end-int64(len(b)))...)
	}
	if c.truncate {
		return b[:c.off:c.off]
	}
	copy(b[c.off:], c.data)
	return b
}
