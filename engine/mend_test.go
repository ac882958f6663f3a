package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/clock"
	pb "github.com/engined/engined/proto/enginepb"
)

var quiet = slog.New(slog.DiscardHandler)

// sleeps waits by the timer d; "long" waits for an activity that nobody knows.
func sleeps(d time.Duration) func(in *pb.Event) []*pb.Event {
	return func(in *pb.Event) []*pb.Event {
		switch b := in.Body.(type) {
		case *pb.Event_WorkflowStarted:
			if b.WorkflowStarted.WorkflowId == "long" {
				return []*pb.Event{{Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{
					Op: "#1", Type: "Nobody", Queue: "elsewhere", Timeouts: &pb.Timeouts{ScheduleToClose: int64(10 * d)},
				}}}}
			}
			return []*pb.Event{{Body: &pb.Event_TimerStarted{TimerStarted: &pb.TimerStarted{Op: "#1", Duration: int64(d)}}}}
		case *pb.Event_TimerFired:
			return []*pb.Event{{Body: &pb.Event_WorkflowCompleted{WorkflowCompleted: &pb.WorkflowCompleted{}}}}
		default:
			return nil
		}
	}
}

func TestAFarDeadlineDoesNotHideTimersOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Hour)
		defer cancel()
		e, err := Open(ctx, Config{Store: memstore.New(1), Clock: clock.Runtime(), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		startRawOf(t, ctx, e, "w1", sleeps(2*time.Hour))
		go func() { _, _ = start(ctx, e, "long") }()
		synctest.Wait()
		began := time.Now()
		if _, err := start(ctx, e, "sleeper"); err != nil {
			t.Fatal(err)
		}
		if slept := time.Since(began); slept > 2*time.Hour+time.Minute {
			t.Errorf("it slept for %v, want 2h", slept)
		}
		cancel()
		if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// A run with an open write that somebody waits on is refused, and what is left of
// the batch then ends as unknown: who waits is told once.
func TestARefusalThenAnUnknownOutcomeTellsEverybodyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		st := memstore.New(1)
		var e *Engine
		refused, unknown := false, false
		cancelled := make(chan error, 1)
		st.Hook = func(b *store.Batch) memstore.Verdict {
			for _, w := range b.Writes {
				if !refused && w.Run.WorkflowID == "bad" && len(b.Writes) > 1 {
					refused = true
					go func() {
						_, err := e.Cancel(ctx, &pb.CancelRequest{Run: &pb.RunRef{Namespace: "default", WorkflowId: "bad"}, RequestId: "c"})
						cancelled <- err
					}()
					<-time.After(time.Second) // virtual: a slow commit
					return memstore.Refused(w.Run.Run)
				}
			}
			if refused && !unknown {
				unknown = true
				return memstore.UnknownNotLanded()
			}
			return memstore.Done()
		}
		var err error
		if e, err = Open(ctx, Config{Store: st, Clock: clock.Runtime(), Logger: quiet}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"bad", "good"} {
			if _, err := e.Start(ctx, &pb.StartRequest{Namespace: "default", WorkflowId: id, RequestId: "r-" + id, Type: "W", Queue: "default"}); err != nil {
				t.Fatal(err)
			}
		}
		startRaw(t, ctx, e, "w1") // both are assigned, and answered in one go
		<-cancelled
		synctest.Wait()
		if !refused || !unknown {
			t.Fatalf("refused %v, unknown %v: the test proves nothing", refused, unknown)
		}
		if err := e.Err(); err != nil {
			t.Errorf("the engine has stopped: %v", err)
		}
		stop()
		if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// undue is a store that for a while cannot say what is due.
type undue struct {
	store.Store
	failures atomic.Int32
}

func (s *undue) Due(ctx context.Context, id store.ShardID, until int64, after store.Wake, limit int) ([]store.Wake, error) {
	if s.failures.Add(-1) >= 0 {
		return nil, errors.New("the disk is away")
	}
	return s.Store.Due(ctx, id, until, after, limit)
}

func TestWhatIsDueIsReadAgainUntilItCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		st := &undue{Store: memstore.New(1)}
		st.failures.Store(5)
		e, err := Open(ctx, Config{Store: st, Clock: clock.Runtime(), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := e.Ready(); !apierr.Is(err, apierr.Unavailable) {
			t.Errorf("while it cannot be read the engine is ready: %v", err)
		}
		startRaw(t, ctx, e, "w1")
		if _, err := start(ctx, e, "a"); err != nil {
			t.Error(err)
		}
		<-time.After(10 * time.Second) // virtual
		synctest.Wait()
		if err := errors.Join(e.Ready(), e.Err()); err != nil {
			t.Errorf("when it can be read again: %v", err)
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// What a commit under way has not written yet is told to nobody.
func TestNothingIsToldOfACommitUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		st := memstore.New(1)
		var e *Engine
		asked := false
		told := make(chan error, 1)
		st.Hook = func(*store.Batch) memstore.Verdict {
			if asked {
				return memstore.Done()
			}
			asked = true
			go func() {
				_, err := e.Describe(ctx, &pb.DescribeRequest{Run: &pb.RunRef{Namespace: "default", WorkflowId: "a"}})
				told <- err
			}()
			<-time.After(time.Second) // virtual: it is asked meanwhile
			return memstore.UnknownNotLanded()
		}
		var err error
		if e, err = Open(ctx, Config{Store: st, Clock: clock.Runtime(), Logger: quiet}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Start(ctx, &pb.StartRequest{Namespace: "default", WorkflowId: "a", RequestId: "r", Type: "W", Queue: "default"}); !apierr.Is(err, apierr.Unavailable) {
			t.Errorf("the start whose outcome is unknown: %v", err)
		}
		if err := <-told; err == nil || !asked {
			t.Error("a run was described that was never written")
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A shard whose lease has few run numbers left gets another, and goes on.
func TestAShardThatIsWornGoesOnUnderAnotherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
		defer cancel()
		e, err := Open(ctx, Config{Store: memstore.New(1), Clock: clock.Runtime(), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		startRawOf(t, ctx, e, "w1", sleeps(time.Hour))
		done := make(chan error, 1)
		go func() {
			_, err := start(ctx, e, "sleeper")
			done <- err
		}()
		synctest.Wait()
		before := e.shards[0].m.Lease()
		e.committer.wear(0)
		synctest.Wait()
		if after := e.shards[0].m.Lease(); after.Epoch <= before.Epoch || after.NextRun < before.NextRun+store.ReservedRuns {
			t.Errorf("the lease was %+v and is %+v", before, after)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := e.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
}

// Found by the simulator: of a refused run's old memory one more write was on its
// way when the run had been read again. It was refused, too, and took the write of
// the hold with it, so that the run was held in memory, and nowhere else.
func TestARefusalLeavesAloneWhatWasReadAgain(t *testing.T) {
	e, err := Open(t.Context(), Config{Store: memstore.New(1), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := e.shards[0]
	of := func() *write {
		return &write{shard: s, run: &machine.Run{Row: store.RunRow{Run: 7, RunID: "R"}, State: &pb.RunState{}}}
	}
	old, hold := of(), of()
	s.mu.Lock()
	s.open[7], s.last[7] = hold, hold
	s.mu.Unlock()
	e.committer.refuse([]*write{old}, &store.RefusedError{Run: 7, Err: errors.New("version 8 would follow version 6")})
	s.mu.Lock()
	if !old.dropped || hold.dropped || s.open[7] != hold || s.last[7] != hold {
		t.Errorf("dropped: the old memory's write %v, that of the hold %v", old.dropped, hold.dropped)
	}
	delete(s.open, 7)
	delete(s.last, 7)
	s.mu.Unlock()
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
