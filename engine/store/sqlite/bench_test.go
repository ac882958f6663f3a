package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/mattn"
)

// BenchmarkWorkflows writes workflows of one activity, two transitions and six
// rows each, n transitions a commit; an op is one workflow.
func BenchmarkWorkflows(b *testing.B) {
	for _, n := range []int{1, 64, 500} {
		b.Run(fmt.Sprint(n, " a commit"), func(b *testing.B) {
			s, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "engine.db"), Driver: mattn.Driver()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			ids := make([]store.ShardID, sqlite.DefaultShards)
			for i := range ids {
				ids[i] = store.ShardID(i)
			}
			leases, err := s.Fence(b.Context(), ids, 1)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += n {
				start, end := &store.Batch{Leases: leases[:min(n, len(ids))]}, &store.Batch{Leases: leases[:min(n, len(ids))]}
				for i := range n {
					w := workflow(leases[i%len(leases)], int64(done+i))
					last := then(w)
					last.Del, last.Run.Pending, last.Run.Open = []string{"a"}, 0, false
					start.Writes, end.Writes = append(start.Writes, w), append(end.Writes, last)
				}
				for _, batch := range []*store.Batch{start, end} {
					if err := s.Commit(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// workflow is the first write of a workflow, with 300 bytes of events.
func workflow(l store.Lease, n int64) *store.Write {
	w := first(l, n)
	w.Run.WorkflowID = fmt.Sprintf("order-%016x", uint64(n)*0x9e3779b97f4a7c15) // spread as users' ids are
	w.Put, w.Dedup, w.Run.Pending, w.Run.Attention = w.Put[:1], nil, 1, false
	w.Events.Data = make([]byte, 300)
	return w
}
