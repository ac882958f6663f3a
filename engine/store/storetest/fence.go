package storetest

import (
	"errors"
	"slices"

	"github.com/engined/engined/engine/store"
)

var fenceTests = []test{
	{"the epoch is the last plus 1, or now if that is more", epochs},
	{"an older epoch writes nothing, and the lost shards are named", leaseLost},
	{"a write needs the lease of its shard", noLease},
	{"run numbers are reserved once", numbersOnce},
	{"no number is given twice, also beyond a reserve", numbersBeyond},
	{"an unknown shard is an error", unknownShard},
}

func epochs(b *bench) {
	last := b.leases[2].Epoch
	for _, now := range []int64{0, last, last + 1000, 5, last + 1002} {
		want := max(last+1, now)
		leases, err := b.s.Fence(b.Context(), []store.ShardID{2}, now)
		if err != nil || len(leases) != 1 || leases[0].Shard != 2 || leases[0].Epoch != want {
			b.Fatalf("Fence at %d after epoch %d = %+v, %v; want epoch %d", now, last, leases, err, want)
		}
		last = want
	}
	leases, err := b.s.Fence(b.Context(), []store.ShardID{3, 1}, 0)
	if err != nil || len(leases) != 2 || leases[0].Shard != 3 || leases[1].Shard != 1 {
		b.Fatalf("Fence of 3 and 1 = %+v, %v", leases, err)
	}
	if leases, err = b.s.Fence(b.Context(), nil, 0); err != nil || len(leases) != 0 {
		b.Fatalf("Fence of nothing = %+v, %v", leases, err)
	}
}

func leaseLost(b *bench) {
	rows := make([]store.RunRow, Shards)
	writes := make([]*store.Write, Shards)
	for i := range rows {
		rows[i] = b.row(store.ShardID(i), "order")
		rows[i].WorkflowID += rows[i].RunID
		writes[i] = step(&rows[i], change{events: 1})
	}
	batch := b.batch(writes...)
	slices.Reverse(batch.Leases)
	taken, err := b.s.Fence(b.Context(), []store.ShardID{3, 1}, b.now)
	if err != nil {
		b.Fatal(err)
	}
	err = b.s.Commit(b.Context(), batch)
	var lost *store.LeaseLostError
	if !errors.As(err, &lost) || !slices.Equal(lost.Shards, []store.ShardID{1, 3}) {
		b.Fatalf("Commit = %v, want the leases of shards 1 and 3 lost", err)
	}
	for _, r := range rows {
		b.has(r.Run, nil)
	}
	b.commit(writes[0], writes[2])
	for _, l := range taken {
		b.leases[l.Shard] = l
	}
	b.commit(writes[1], writes[3])
	for _, r := range rows {
		b.has(r.Run, &r)
	}
	ahead := b.leases[0]
	ahead.Epoch++
	if err := b.s.Commit(b.Context(), &store.Batch{Leases: []store.Lease{ahead}}); !errors.As(err, &lost) {
		b.Fatalf("Commit under an epoch that nobody was given = %v", err)
	}
	ahead = store.Lease{Shard: Shards, Epoch: 1}
	if err := b.s.Commit(b.Context(), &store.Batch{Leases: []store.Lease{ahead}}); !errors.As(err, &lost) {
		b.Fatalf("Commit to a shard that is none = %v", err)
	}
}

func noLease(b *bench) {
	row := b.row(1, "order")
	batch := b.batch(step(&row, change{events: 1}))
	batch.Leases = []store.Lease{b.leases[0]}
	var r *store.RefusedError
	if err := b.s.Commit(b.Context(), batch); !errors.As(err, &r) || r.Index != 0 || r.Run != row.Run {
		b.Fatalf("Commit = %v, want write 0 refused", err)
	}
	b.has(row.Run, nil)
}

func numbersOnce(b *bench) {
	free := int64(1)
	for i := range 6 {
		for shard, l := range b.leases {
			if l.NextRun < free {
				b.Fatalf("fence %d of shard %d gives numbers from %d again", i, shard, l.NextRun)
			}
		}
		free = b.leases[0].NextRun + store.ReservedRuns
		if i%2 == 1 {
			b.reopen()
		}
		b.fence()
	}
}

// numbersBeyond: a lease may have given out more numbers than were reserved for it.
func numbersBeyond(b *bench) {
	b.next[0] += 3 * store.ReservedRuns
	row := b.row(0, "order")
	b.commit(step(&row, change{events: 1}))
	for range 2 {
		b.fence()
		if got := store.MakeRunNo(0, b.leases[0].NextRun); got <= row.Run {
			b.Fatalf("a fence gives numbers from %d again, run %d is there", got, row.Run)
		}
		b.reopen()
	}
}

func unknownShard(b *bench) {
	for _, ids := range [][]store.ShardID{{Shards}, {0, Shards}, {1, 1}} {
		if leases, err := b.s.Fence(b.Context(), ids, 1<<40); err == nil {
			b.Fatalf("Fence of %v = %+v", ids, leases)
		}
	}
	row := b.row(0, "order")
	b.commit(step(&row, change{events: 1})) // no lease was lost over it
}
