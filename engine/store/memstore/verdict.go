package memstore

import (
	"slices"

	"github.com/engined/engined/engine/store"
)

type outcome int

const (
	done outcome = iota
	leaseLost
	refused
	unavailable
	unknownNotLanded
	unknownLanded
	unknownLandsLater
	cutBefore
	cutAfter
)

// Verdict says how a commit ends. The zero value is Done.
type Verdict struct {
	outcome outcome
	shards  []store.ShardID
	run     store.RunNo
	err     error
}

// Done lets the commit end by its own merits.
func Done() Verdict { return Verdict{} }

// LeaseLost ends the commit with a *store.LeaseLostError of the shards. With
// none of them in the batch it is Done.
func LeaseLost(shards ...store.ShardID) Verdict {
	return Verdict{outcome: leaseLost, shards: shards}
}

// Refused ends the commit with a *store.RefusedError that names the run's
// write. If the batch does not write the run it is Done, so a Hook may return
// the same verdict always.
func Refused(run store.RunNo) Verdict { return Verdict{outcome: refused, run: run} }

// Unavailable ends the commit with a *store.UnavailableError.
func Unavailable(err error) Verdict { return Verdict{outcome: unavailable, err: err} }

// UnknownNotLanded reports store.ErrUnknown; nothing is written, now or later.
func UnknownNotLanded() Verdict { return Verdict{outcome: unknownNotLanded} }

// UnknownLanded reports store.ErrUnknown; the batch is written.
func UnknownLanded() Verdict { return Verdict{outcome: unknownLanded} }

// UnknownLandsLater reports store.ErrUnknown; the batch is written during the
// next Fence of one of its shards, before that returns, and never after. No
// read sees it until then.
func UnknownLandsLater() Verdict { return Verdict{outcome: unknownLandsLater} }

// CutBefore ends the handle; the batch is not written. See ErrCut.
func CutBefore() Verdict { return Verdict{outcome: cutBefore} }

// CutAfter writes the batch and ends the handle: Commit returns ErrCut too.
func CutAfter() Verdict { return Verdict{outcome: cutAfter} }

// of narrows the verdict to what can happen to the batch.
func (v Verdict) of(b *store.Batch) Verdict {
	switch v.outcome {
	case leaseLost:
		v.shards = slices.DeleteFunc(slices.Clone(v.shards), func(s store.ShardID) bool {
			return !slices.ContainsFunc(b.Leases, func(l store.Lease) bool { return l.Shard == s })
		})
		if len(v.shards) == 0 {
			return Done()
		}
	case refused:
		if v.index(b) < 0 {
			return Done()
		}
	}
	return v
}

func (v Verdict) index(b *store.Batch) int {
	return slices.IndexFunc(b.Writes, func(w *store.Write) bool { return w.Run.Run == v.run })
}
