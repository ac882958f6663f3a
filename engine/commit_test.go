package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/clock"
	pb "github.com/engined/engined/proto/enginepb"
)

// verdicts are the ways in which a commit ends badly and the engine goes on.
var verdicts = map[string]func(b *store.Batch) memstore.Verdict{
	"lease lost":          func(b *store.Batch) memstore.Verdict { return memstore.LeaseLost(b.Leases[0].Shard) },
	"unavailable":         func(*store.Batch) memstore.Verdict { return memstore.Unavailable(errors.New("disk full")) },
	"unknown, not landed": func(*store.Batch) memstore.Verdict { return memstore.UnknownNotLanded() },
	"unknown, landed":     func(*store.Batch) memstore.Verdict { return memstore.UnknownLanded() },
	"unknown, later":      func(*store.Batch) memstore.Verdict { return memstore.UnknownLandsLater() },
}

// A commit that ends in any way but refused costs nobody anything: every
// acknowledged run completes, once, with its own result, and what the engine
// says afterwards is what the database has.
func TestEveryRunCompletesHoweverACommitEnds(t *testing.T) {
	for name, verdict := range verdicts {
		for nth := 1; nth <= 6; nth++ {
			t.Run(fmt.Sprintf("%s at commit %d", name, nth), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { oneBadCommit(t, nth, verdict) })
			})
		}
	}
}

func oneBadCommit(t *testing.T, nth int, verdict func(*store.Batch) memstore.Verdict) {
	st := memstore.New(4)
	n, fired := 0, false
	st.Hook = func(b *store.Batch) memstore.Verdict {
		if n++; n == nth {
			fired = true
			return verdict(b)
		}
		return memstore.Done()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	e, err := Open(ctx, Config{Store: st, Clock: clock.Runtime(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	startRaw(t, ctx, e, "w1")
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			// Two after another, so that there are commits enough.
			for i := range 2 {
				id := fmt.Sprintf("run-%d-%d", c, i)
				res, err := start(ctx, e, id)
				if err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
				if got, want := string(res.Result.Result.GetData()), `"`+id+`"`; got != want {
					t.Errorf("%s: result %s, want %s", id, got, want)
				}
			}
		})
	}
	wg.Wait()
	if !fired {
		t.Fatalf("void: there were only %d commits", n)
	}
	memoryEqualsDatabase(t, ctx, e, st)
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
}

// memoryEqualsDatabase compares what the engine says of each run with its row.
func memoryEqualsDatabase(t *testing.T, ctx context.Context, e *Engine, st store.Store) {
	rows, err := st.List(ctx, store.Query{Namespace: "default", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 16 {
		t.Errorf("the database has %d runs, want 16", len(rows))
	}
	for _, row := range rows {
		d, err := e.Describe(ctx, &pb.DescribeRequest{Run: &pb.RunRef{Namespace: "default", WorkflowId: row.WorkflowID}})
		if err != nil {
			t.Errorf("%s: %v", row.WorkflowID, err)
			continue
		}
		if d.Info.RunId != row.RunID || d.Info.Events != row.NextEvent-1 || int32(d.Info.Status) != row.Status {
			t.Errorf("%s: the engine says %v, the database has %+v", row.WorkflowID, d.Info, row)
		}
		if row.Open || row.Status != int32(pb.Status_STATUS_COMPLETED) || row.NextEvent != 5 {
			t.Errorf("%s: row %+v, want a completed run of 4 events", row.WorkflowID, row)
		}
	}
}

// A run that the database will not write is held with the reason; the others in
// its batch are written.
func TestARefusedRunIsHeldAndHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(4)
		var bad store.RunNo
		var harmless atomic.Bool
		st.Hook = func(b *store.Batch) memstore.Verdict {
			if harmless.Load() {
				return memstore.Done()
			}
			for _, w := range b.Writes {
				if w.Run.WorkflowID == "bad" && w.Run.NextEvent > 3 {
					bad = w.Run.Run
				}
			}
			return memstore.Refused(bad)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		e, err := Open(ctx, Config{Store: st, Clock: clock.Runtime(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		startRaw(t, ctx, e, "w1")
		var wg sync.WaitGroup
		for _, id := range []string{"a", "b", "bad", "c", "d"} {
			wg.Go(func() {
				res, err := start(ctx, e, id)
				if id != "bad" {
					if err != nil || string(res.Result.Result.GetData()) != `"`+id+`"` {
						t.Errorf("%s: %v %v", id, res, err)
					}
					return
				}
				if !apierr.Is(err, apierr.Internal) {
					t.Errorf("the caller of the refused run got %v, %v; want an internal error", res, err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if bad == 0 {
			t.Fatal("void: no write was refused")
		}
		harmless.Store(true)
		d, err := e.Describe(ctx, &pb.DescribeRequest{Run: &pb.RunRef{Namespace: "default", WorkflowId: "bad"}})
		if err != nil {
			t.Fatal(err)
		}
		if h := d.Info.Hold; h.GetKind() != pb.HoldKind_HOLD_KIND_QUARANTINED || h.Reason == "" {
			t.Errorf("the refused run is held as %v, want quarantined with a reason", h)
		}
		// The start and the schedule were written before. The activity's result
		// may have been recorded again since; nothing was decided upon it.
		if d.Info.Events > 3 || d.Info.Status != pb.Status_STATUS_RUNNING {
			t.Errorf("the refused run went on: %v", d.Info)
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// After a failed sync the engine answers nothing more and says so to its owner.
func TestAFatalCommitStopsTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &fatalStore{Store: memstore.New(4)}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		e, err := Open(ctx, Config{Store: st, Clock: clock.Runtime(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Start(ctx, &pb.StartRequest{Namespace: "default", WorkflowId: "x", Type: "W", Queue: "default"})
		if !apierr.Is(err, apierr.Unavailable) {
			t.Errorf("start answered %v, want unavailable", err)
		}
		select {
		case <-e.Stopped():
		case <-ctx.Done():
			t.Fatal("the engine goes on after a failed sync")
		}
		var fatal *store.FatalError
		if !errors.As(e.Err(), &fatal) {
			t.Errorf("the engine stopped with %v", e.Err())
		}
		if st.commits != 1 {
			t.Errorf("%d commits were tried, want 1: a failed sync is never retried", st.commits)
		}
		_ = e.Close(ctx)
	})
}

type fatalStore struct {
	store.Store
	commits int
}

func (s *fatalStore) Commit(context.Context, *store.Batch) error {
	s.commits++
	return &store.FatalError{Err: errors.New("fsync: input/output error")}
}

// While the database cannot write, what is durable is answered, what would write
// is refused with the reason, and when it can write again nothing is lost.
func TestReadsAreServedWhileTheDatabaseCannotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(1)
		var full atomic.Bool
		st.Hook = func(*store.Batch) memstore.Verdict {
			if full.Load() {
				return memstore.Unavailable(errors.New("disk full"))
			}
			return memstore.Done()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		e, err := Open(ctx, Config{Store: st, Clock: clock.Runtime(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		startRaw(t, ctx, e, "w1")
		if _, err := start(ctx, e, "before"); err != nil {
			t.Fatal(err)
		}
		full.Store(true)
		meanwhile := make(chan error)
		go func() {
			_, err := start(ctx, e, "meanwhile")
			meanwhile <- err
		}()
		synctest.Wait()
		ref := &pb.RunRef{Namespace: "default", WorkflowId: "before"}
		d, err := e.Describe(ctx, &pb.DescribeRequest{Run: ref})
		if err != nil || d.Info.Status != pb.Status_STATUS_COMPLETED {
			t.Errorf("describe: %v, %v", d, err)
		}
		if _, err := e.Await(ctx, &pb.AwaitRequest{Run: ref}); err != nil {
			t.Errorf("await: %v", err)
		}
		_, err = e.Start(ctx, &pb.StartRequest{Namespace: "default", WorkflowId: "refused", Type: "W", Queue: "default"})
		if !apierr.Is(err, apierr.Unavailable) || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("a start was answered %v, want unavailable with the reason", err)
		}
		full.Store(false)
		if err := <-meanwhile; err != nil {
			t.Errorf("the one that waited: %v", err)
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
