package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/memstore"
)

// fenced returns a store and the leases of its four shards.
func fenced(t *testing.T, s *memstore.Store) []store.Lease {
	t.Helper()
	leases, err := s.Fence(t.Context(), []store.ShardID{0, 1, 2, 3}, 1)
	if err != nil {
		t.Fatalf("Fence: %v", err)
	}
	return leases
}

func insert(l store.Lease) *store.Write {
	r := store.RunRow{Run: store.MakeRunNo(l.Shard, l.NextRun), Namespace: "default", WorkflowID: fmt.Sprint("order-", l.Shard), Open: true,
		Version: 1, NextEvent: 2, Pending: 1, State: []byte("state")}
	return &store.Write{Run: r, Insert: true, Events: &store.EventRow{Run: r.Run, First: 1, Last: 1, Data: []byte("events")},
		Put: []store.PendingRow{{Run: r.Run, Op: "a", Data: []byte("pending")}}}
}

func batch(leases []store.Lease, writes ...*store.Write) *store.Batch {
	return &store.Batch{Leases: leases, Writes: writes}
}

func there(t *testing.T, s *memstore.Store, w *store.Write) bool {
	t.Helper()
	l, err := s.Load(t.Context(), []store.Key{{Run: w.Run.Run}})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return l[0].Run != nil
}

func always(v memstore.Verdict) func(*store.Batch) memstore.Verdict {
	return func(*store.Batch) memstore.Verdict { return v }
}

func TestVerdictIsReportedAndKept(t *testing.T) {
	full := errors.New("the disk is full")
	for name, c := range map[string]struct {
		verdict func(*store.Write) memstore.Verdict
		lands   bool
		is      func(error) bool
	}{
		"done": {func(*store.Write) memstore.Verdict { return memstore.Done() }, true, func(err error) bool { return err == nil }},
		"lease lost": {func(*store.Write) memstore.Verdict { return memstore.LeaseLost(1, 9) }, false, func(err error) bool {
			var e *store.LeaseLostError
			return errors.As(err, &e) && slices.Equal(e.Shards, []store.ShardID{1})
		}},
		"lease lost elsewhere": {func(*store.Write) memstore.Verdict { return memstore.LeaseLost(9) }, true, func(err error) bool { return err == nil }},
		"refused": {func(w *store.Write) memstore.Verdict { return memstore.Refused(w.Run.Run) }, false, func(err error) bool {
			var e *store.RefusedError
			return errors.As(err, &e) && e.Index == 1 && e.Run.Shard() == 1
		}},
		"refused elsewhere": {func(*store.Write) memstore.Verdict { return memstore.Refused(77) }, true, func(err error) bool { return err == nil }},
		"unavailable": {func(*store.Write) memstore.Verdict { return memstore.Unavailable(full) }, false, func(err error) bool {
			var e *store.UnavailableError
			return errors.As(err, &e) && errors.Is(err, full)
		}},
		"unknown, not landed": {func(*store.Write) memstore.Verdict { return memstore.UnknownNotLanded() }, false, func(err error) bool { return errors.Is(err, store.ErrUnknown) }},
		"unknown, landed":     {func(*store.Write) memstore.Verdict { return memstore.UnknownLanded() }, true, func(err error) bool { return errors.Is(err, store.ErrUnknown) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := memstore.New(4)
			leases := fenced(t, s)
			one, two := insert(leases[0]), insert(leases[1])
			s.Hook = always(c.verdict(two))
			if err := s.Commit(t.Context(), batch(leases, one, two)); !c.is(err) {
				t.Fatalf("Commit = %v", err)
			}
			fenced(t, s)
			if there(t, s, one) != c.lands || there(t, s, two) != c.lands {
				t.Fatalf("landed: %t and %t, want %t", there(t, s, one), there(t, s, two), c.lands)
			}
		})
	}
}

func TestUnknownBatchLandsDuringTheNextFenceOfItsShardsOnly(t *testing.T) {
	s := memstore.New(4)
	leases := fenced(t, s)
	w := insert(leases[1])
	s.Hook = always(memstore.UnknownLandsLater())
	if err := s.Commit(t.Context(), batch(leases[1:2], w)); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("Commit = %v, want unknown", err)
	}
	clear(w.Run.State) // the store has its own copy
	if there(t, s, w) {
		t.Fatal("it is read before it has landed")
	}
	if _, err := s.Fence(t.Context(), []store.ShardID{0, 2}, 0); err != nil {
		t.Fatal(err)
	}
	if there(t, s, w) {
		t.Fatal("it landed with the fence of other shards")
	}
	s = s.Reopen()
	if there(t, s, w) {
		t.Fatal("it landed without a fence")
	}
	if _, err := s.Fence(t.Context(), []store.ShardID{1}, 0); err != nil {
		t.Fatal(err)
	}
	l, err := s.Load(t.Context(), []store.Key{{Run: w.Run.Run}})
	if err != nil || l[0].Run == nil || string(l[0].Run.State) != "state" || len(l[0].Pending) != 1 {
		t.Fatalf("after the fence: %+v, %v", l, err)
	}
	if got := s.Stats().Commits; got != 1 {
		t.Fatalf("%d commits, want 1", got)
	}
}

func TestUnknownBatchThatDoesNotFitAnyMoreNeverLands(t *testing.T) {
	s := memstore.New(4)
	leases := fenced(t, s)
	w := insert(leases[1])
	s.Hook = always(memstore.UnknownLandsLater())
	if err := s.Commit(t.Context(), batch(leases[1:2], w)); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("Commit = %v, want unknown", err)
	}
	s.Hook = nil
	other := insert(leases[1])
	other.Run.Run++
	other.Events.Run++
	other.Put[0].Run++
	if err := s.Commit(t.Context(), batch(leases[1:2], other)); err != nil { // takes the id
		t.Fatal(err)
	}
	for range 2 {
		fenced(t, s)
		if there(t, s, w) {
			t.Fatal("it landed although its id was taken")
		}
	}
}

func TestCutEndsTheHandleAndKeepsWhatLanded(t *testing.T) {
	for name, c := range map[string]struct {
		verdict memstore.Verdict
		lands   bool
	}{"before": {memstore.CutBefore(), false}, "after": {memstore.CutAfter(), true}} {
		t.Run(name, func(t *testing.T) {
			s := memstore.New(4)
			leases := fenced(t, s)
			w := insert(leases[0])
			s.Hook = always(c.verdict)
			for range 2 {
				err := s.Commit(t.Context(), batch(leases[:1], w))
				if !errors.Is(err, memstore.ErrCut) || !errors.Is(err, store.ErrClosed) {
					t.Fatalf("Commit = %v, want ErrCut", err)
				}
			}
			if _, err := s.Load(t.Context(), nil); !errors.Is(err, memstore.ErrCut) {
				t.Fatalf("Load = %v, want ErrCut", err)
			}
			if err := s.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			again := s.Reopen()
			if there(t, again, w) != c.lands {
				t.Fatalf("landed: %t, want %t", !c.lands, c.lands)
			}
			if _, err := s.Load(t.Context(), nil); !errors.Is(err, store.ErrClosed) {
				t.Fatalf("the old handle answers %v", err)
			}
		})
	}
}

func TestStatsCountWhatLanded(t *testing.T) {
	s := memstore.New(0)
	leases := fenced(t, s)
	w := insert(leases[0])
	if err := s.Commit(t.Context(), batch(leases[:1], w)); err != nil {
		t.Fatal(err)
	}
	bad := insert(leases[0])
	if err := s.Commit(t.Context(), batch(leases[:1], bad)); err == nil {
		t.Fatal("the run was inserted twice")
	}
	last := *w
	last.Insert, last.Put, last.Del = false, nil, []string{"a"}
	last.Run.Version, last.Run.NextEvent, last.Run.Pending = 2, 3, 0
	last.Events = &store.EventRow{Run: w.Run.Run, First: 2, Last: 2}
	if err := s.Commit(t.Context(), batch(leases[:1], &last)); err != nil {
		t.Fatal(err)
	}
	got := s.Reopen().Stats()
	if got.Commits != 2 || got.Rows != 6 || got.Bytes < 2*62+48 {
		t.Fatalf("Stats = %+v, want 2 commits and 6 rows", got)
	}
	if n := s.Info().Shards; n != memstore.DefaultShards {
		t.Fatalf("%d shards", n)
	}
}

func TestHookMayReadTheStore(t *testing.T) {
	s := memstore.New(1)
	leases, err := s.Fence(context.Background(), []store.ShardID{0}, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := insert(leases[0])
	var seen bool
	s.Hook = func(*store.Batch) memstore.Verdict {
		seen = there(t, s, w)
		return memstore.Done()
	}
	if err := s.Commit(t.Context(), batch(leases, w)); err != nil || seen {
		t.Fatalf("Commit: %v; seen before it landed: %t", err, seen)
	}
}
