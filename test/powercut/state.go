package powercut

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/engined/engined/engine/store"
)

// Shards is the number of shards of every database here.
const Shards = 4

// allShards are their numbers.
func allShards() []store.ShardID { return []store.ShardID{0, 1, 2, 3} }

// Keys are what to ask a store for, so that it shows all it has.
type Keys struct {
	Runs     []store.Key // number, and the request of the start
	Requests []store.Key // the others: number and request
}

func (k Keys) clone() Keys { return Keys{slices.Clone(k.Runs), slices.Clone(k.Requests)} }

// State is what a store shows to those who ask.
type State struct {
	List      []store.RunRow
	Runs      []store.Loaded // by Keys.Runs
	Requests  []store.Loaded // by Keys.Requests
	Histories [][]store.EventRow
	Due       [Shards][]store.Wake
}

// Observe asks a store for everything.
func Observe(ctx context.Context, s store.Store, keys Keys) (*State, error) {
	st := &State{}
	var err error
	if st.List, err = s.List(ctx, store.Query{}); err != nil {
		return nil, err
	}
	if st.Runs, err = s.Load(ctx, keys.Runs); err != nil {
		return nil, err
	}
	if st.Requests, err = s.Load(ctx, keys.Requests); err != nil {
		return nil, err
	}
	for _, k := range keys.Runs {
		h, err := s.History(ctx, k.Run, 0, math.MaxInt)
		if err != nil {
			return nil, err
		}
		st.Histories = append(st.Histories, h)
	}
	for i, id := range allShards() {
		if st.Due[i], err = s.Due(ctx, id, math.MaxInt64, store.Wake{}, math.MaxInt32); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// Diff says where two states differ, or nothing.
func (s *State) Diff(want *State) string {
	switch {
	case !same(s.List, want.List):
		return fmt.Sprintf("%d runs are listed, want %d: %s", len(s.List), len(want.List), firstDiff(s.List, want.List))
	case !same(s.Runs, want.Runs):
		return "runs loaded: " + firstDiff(s.Runs, want.Runs)
	case !same(s.Requests, want.Requests):
		return "requests loaded: " + firstDiff(s.Requests, want.Requests)
	case !same(s.Histories, want.Histories):
		return "histories: " + firstDiff(s.Histories, want.Histories)
	}
	for i := range s.Due {
		if !same(s.Due[i], want.Due[i]) {
			return fmt.Sprintf("due of shard %d: %s", i, firstDiff(s.Due[i], want.Due[i]))
		}
	}
	return ""
}

func same[T any](a, b []T) bool { return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b) }

func firstDiff[T any](got, want []T) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("element %d is missing: %s", i, brief(want[i]))
		case i >= len(want):
			return fmt.Sprintf("element %d is too many: %s", i, brief(got[i]))
		case !reflect.DeepEqual(got[i], want[i]):
			return fmt.Sprintf("element %d is %s, want %s", i, brief(got[i]), brief(want[i]))
		}
	}
	return "they are the same"
}

func brief(v any) string {
	if l, ok := v.(store.Loaded); ok && l.Run != nil {
		v = fmt.Sprintf("%+v with %d pending rows %.200v", *l.Run, len(l.Pending), l.Pending)
	}
	return fmt.Sprintf("%.300s", fmt.Sprintf("%+v", v))
}
