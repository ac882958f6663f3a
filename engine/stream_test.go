package engine

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/clock"
	pb "github.com/engined/engined/proto/enginepb"
)

// slow is an engine whose commits take a while.
func slow(t *testing.T, ctx context.Context, d time.Duration) *Engine {
	st := memstore.New(1)
	st.Hook = func(*store.Batch) memstore.Verdict {
		<-time.After(d) // virtual
		return memstore.Done()
	}
	e, err := Open(ctx, Config{Store: st, Clock: clock.Runtime(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	return e
}

// What became of a message of a stream that is over says nothing of the messages
// of the next, which count from 1 again.
func TestAnAcknowledgementBelongsToItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		e := slow(t, ctx, 200*time.Millisecond)
		tasks := make(chan *pb.Task, 10)
		w := &rawWorker{t: t, decide: echo, hello: &pb.Hello{
			Protocol: 1, Namespace: "default", Queue: "default", Worker: "w1", Build: "a",
			WorkflowTypes: []string{"W"}, ActivityTypes: []string{"Echo"}, Slots: 10,
		}, run: func(task *pb.Task) *pb.Done { tasks <- task; return nil }}
		open := func() *WorkerStream {
			s, err := e.Connect(w.hello)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Receive(&pb.WorkerUp{Seq: 1}); err != nil {
				t.Fatal(err)
			}
			return s
		}
		w.s, w.seq = e.Work(ctx), 0
		w.send(&pb.WorkerUp{Hello: w.hello})
		ended := make(chan struct{})
		go func() { defer close(ended); _ = w.serve() }()
		for _, id := range []string{"a", "b"} {
			go func() { _, _ = start(ctx, e, id) }()
		}
		a, b := <-tasks, <-tasks
		synctest.Wait()
		seq := w.seq + 1
		w.send(&pb.WorkerUp{Done: []*pb.Done{succeed(a)}}) // its commit takes its time
		two := open()
		<-ended
		for n := int64(2); n < seq; n++ {
			_ = two.Receive(&pb.WorkerUp{Seq: n})
		}
		<-time.After(150 * time.Millisecond) // virtual: the first answer is about to be durable
		if err := two.Receive(&pb.WorkerUp{Seq: seq, Done: []*pb.Done{succeed(b)}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond) // virtual: the first is, the second is not
		two.mu.Lock()
		durable := two.acks.durable
		two.mu.Unlock()
		if durable >= seq {
			t.Errorf("the second stream is told that message %d is durable, and it cannot be yet", durable)
		}
		cancel()
	})
}

// A task whose commit is under way when its worker leaves was never sent: somebody
// else gets it, also if it may run once at most, and no attempt is used.
func TestATaskThatNeverLeftIsHandedToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		e := slow(t, ctx, 200*time.Millisecond)
		once := func(in *pb.Event) []*pb.Event {
			ds := echo(in)
			for _, d := range ds {
				if a := d.GetActivityScheduled(); a != nil {
					a.Retry = &pb.RetryPolicy{Attempts: 1}
				}
			}
			return ds
		}
		hello := func(id string) *pb.Hello {
			return &pb.Hello{
				Protocol: 1, Namespace: "default", Queue: "default", Worker: id, Build: "a",
				WorkflowTypes: []string{"W"}, ActivityTypes: []string{"Echo"}, Slots: 10,
			}
		}
		decided := make(chan struct{}, 10)
		first := &rawWorker{t: t, hello: hello("w1"), run: succeed, decide: func(in *pb.Event) []*pb.Event {
			decided <- struct{}{}
			return once(in)
		}}
		first.s = e.Work(ctx)
		first.send(&pb.WorkerUp{Hello: first.hello})
		go func() { _ = first.serve() }()
		result := make(chan *pb.StartResponse, 1)
		go func() {
			res, err := start(ctx, e, "a")
			if err != nil {
				t.Error(err)
			}
			result <- res
		}()
		<-decided
		synctest.Wait() // the commit with the started attempt is under way
		if err := first.s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		startRawOf(t, ctx, e, "w2", once)
		if res := <-result; res.GetResult().GetStatus() != pb.Status_STATUS_COMPLETED {
			t.Errorf("the run: %v", res)
		}
		page, err := e.History(ctx, &pb.HistoryRequest{Run: &pb.RunRef{Namespace: "default", WorkflowId: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range page.Events {
			if tally := ev.GetActivityCompleted().GetTally(); tally != nil && (tally.Attempts != 1 || tally.Deliveries != 2 || tally.Unanswered != 0) {
				t.Errorf("%v", tally)
			}
		}
		cancel()
	})
}

func TestAStreamWhoseNumbersAreWrongIsEnded(t *testing.T) {
	a := newAcks()
	for seq := int64(1); seq <= 3; seq++ {
		if _, err := a.expect(seq, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.expect(5, 1); !apierr.Is(err, apierr.InvalidArgument) {
		t.Errorf("a message that is missing: %v", err)
	}
	if _, err := a.expect(3, 1); !apierr.Is(err, apierr.InvalidArgument) {
		t.Errorf("a message once more: %v", err)
	}
	if _, err := a.expect(4, maxOpen); !apierr.Is(err, apierr.ResourceExhausted) {
		t.Errorf("more than may be open: %v", err)
	}
	a.done(2)
	a.done(2) // once too often
	a.done(1)
	if a.durable != 2 || a.items != 1 {
		t.Errorf("durable %d, %d items open", a.durable, a.items)
	}
}

func TestAStartIsCheckedWhole(t *testing.T) {
	good := &pb.StartRequest{Namespace: "n", WorkflowId: "a", RequestId: "r", Type: "T", Queue: "q"}
	if err := checkStart(good); err != nil {
		t.Fatal(err)
	}
	for want, req := range map[string]*pb.StartRequest{
		"the header":      {Header: map[string]string{"k": strings.Repeat("x", 1<<20)}},
		"conflict policy": {Conflict: 77},
		"reuse policy":    {Reuse: 99},
		"cancel grace":    {CancelGrace: -1},
	} {
		req.Namespace, req.WorkflowId, req.RequestId, req.Type, req.Queue = "n", "a", "r", "T", "q"
		if err := checkStart(req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A worker that comes to many runs with long histories is not handed all of them
// before it has answered for any.
func TestHistoriesGivenToAWorkerAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
		defer cancel()
		e, err := Open(ctx, Config{Store: memstore.New(1), Clock: clock.Runtime(), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		const runs = 300
		// Long histories, all of them answered, and one timer each that falls due.
		working, gone := context.WithCancel(ctx)
		startRawOf(t, working, e, "w0", sleeps(2*time.Hour))
		input := &pb.Payload{Encoding: "json", Data: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}
		for i := range runs {
			_, err := e.Start(ctx, &pb.StartRequest{Namespace: "default", WorkflowId: string(rune('a'+i%26)) + strings.Repeat("z", i/26), RequestId: "r", Type: "W", Queue: "default", Input: input})
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		gone()
		for _, w := range e.workers.all() {
			w.Leave()
		}
		<-time.After(3 * time.Hour) // virtual
		synctest.Wait()
		s, err := e.Connect(&pb.Hello{Protocol: 1, Namespace: "default", Queue: "default", Worker: "w1", Build: "a", WorkflowTypes: []string{"W"}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.mu.Lock()
		given := len(s.next.Assign)
		s.mu.Unlock()
		if given == 0 || given > 80 {
			t.Errorf("%d of %d histories were given to a worker that has answered nothing", given, runs)
		}
		s.Leave()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
