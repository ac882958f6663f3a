package memstore

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/engined/engined/engine/store"
)

// Load reads runs.
func (s *Store) Load(ctx context.Context, keys []store.Key) ([]store.Loaded, error) {
	mu, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer mu.Unlock()
	out := make([]store.Loaded, len(keys))
	for i, k := range keys {
		out[i] = s.data.load(k)
	}
	return out, nil
}

func (d *data) load(k store.Key) store.Loaded {
	var l store.Loaded
	key := id{k.Namespace, k.WorkflowID}
	no := k.Run
	if no == 0 {
		for _, n := range slices.Backward(d.ids[key]) {
			if k.RunID == "" || d.runs[n].row.RunID == k.RunID {
				no = n
				break
			}
		}
	}
	if r := d.runs[no]; r != nil {
		row := copyRun(&r.row)
		l.Run, key = &row, idOf(&row)
		for _, p := range r.pending {
			l.Pending = append(l.Pending, copyPending(p))
		}
		slices.SortFunc(l.Pending, func(a, b store.PendingRow) int { return strings.Compare(a.Op, b.Op) })
	} else if k.Run != 0 {
		return l // without the run its id is not known
	}
	if k.Request == "" {
		return l
	}
	for _, no := range slices.Backward(d.ids[key]) {
		if r := d.runs[no]; r.row.Request == k.Request {
			row := copyRun(&r.row)
			l.ByRequest = &row
			break
		}
	}
	if r, ok := d.dedup[request{key, k.Request}]; ok {
		r = copyDedup(r)
		l.Dedup = &r
	}
	return l
}

// Due lists what must be in memory. It looks at every run: the price of having
// no index that could be wrong.
func (s *Store) Due(ctx context.Context, sh store.ShardID, until int64, after store.Wake, limit int) ([]store.Wake, error) {
	mu, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer mu.Unlock()
	var out []store.Wake
	add := func(w store.Wake) {
		if (w.At == 0 || w.At <= until) && compareWakes(w, after) > 0 {
			out = append(out, w)
		}
	}
	for no, r := range s.data.runs {
		if no.Shard() != sh {
			continue
		}
		if r.row.Attention {
			add(store.Wake{Run: no})
		}
		for _, p := range r.pending {
			add(store.Wake{At: p.Wake, Run: no, Op: p.Op})
		}
	}
	slices.SortFunc(out, compareWakes)
	return out[:min(len(out), max(limit, 0))], nil
}

func compareWakes(a, b store.Wake) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Run, b.Run), strings.Compare(a.Op, b.Op))
}

// History reads event rows.
func (s *Store) History(ctx context.Context, no store.RunNo, after int64, maxBytes int) ([]store.EventRow, error) {
	mu, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer mu.Unlock()
	r := s.data.runs[no]
	if r == nil {
		return nil, nil
	}
	at, _ := slices.BinarySearchFunc(r.events, after, func(e store.EventRow, after int64) int {
		if e.Last > after {
			return 1
		}
		return -1
	})
	var out []store.EventRow
	for _, e := range r.events[at:] {
		if maxBytes -= len(e.Data); maxBytes < 0 && len(out) > 0 {
			break
		}
		out = append(out, copyEvents(e))
	}
	return out, nil
}

// List reads run rows, newest first.
func (s *Store) List(ctx context.Context, q store.Query) ([]store.RunRow, error) {
	mu, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer mu.Unlock()
	var found []*store.RunRow
	for _, r := range s.data.runs {
		if matches(&r.row, &q) {
			found = append(found, &r.row)
		}
	}
	slices.SortFunc(found, func(a, b *store.RunRow) int {
		return cmp.Or(cmp.Compare(b.Started, a.Started), cmp.Compare(b.Run, a.Run))
	})
	if q.Limit > 0 {
		found = found[:min(len(found), q.Limit)]
	}
	var out []store.RunRow
	for _, r := range found {
		out = append(out, copyRun(r))
	}
	return out, nil
}

func matches(r *store.RunRow, q *store.Query) bool {
	if q.BeforeStarted != 0 || q.BeforeRun != 0 {
		if cmp.Or(cmp.Compare(r.Started, q.BeforeStarted), cmp.Compare(r.Run, q.BeforeRun)) >= 0 {
			return false
		}
	}
	return (q.Namespace == "" || r.Namespace == q.Namespace) &&
		(q.WorkflowID == "" || r.WorkflowID == q.WorkflowID) &&
		(q.Type == "" || r.Type == q.Type) &&
		(q.Status == 0 || r.Status == q.Status)
}
