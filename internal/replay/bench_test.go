package replay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
)

// loop is a chain of activities beside n open timers, without a codec.
func loop(open int) replay.Body {
	return func(ctx replay.Context, _ *pb.Payload) replay.Result {
		for range open {
			ctx.Go(func(ctx replay.Context) { _ = ctx.Wait(ctx.Timer(time.Hour)) })
		}
		for {
			f := ctx.Schedule(&replay.Activity{Event: &pb.ActivityScheduled{Type: "Shop.Ship"}})
			if err := ctx.Wait(f); err != nil {
				return replay.Result{Fault: err}
			}
		}
	}
}

// looping returns a run with n open operations, and what folds one more input.
func looping(tb testing.TB, open int) (next func()) {
	r := replay.New(replay.Config{}, loop(open))
	tb.Cleanup(func() { r.Close() })
	first, err := r.Fold(started(1))
	if err != nil || len(first) != open+1 {
		tb.Fatalf("%d decisions, %v", len(first), err)
	}
	in := &pb.Event{Id: 1}
	body := &pb.ActivityCompleted{}
	in.Body = &pb.Event_ActivityCompleted{ActivityCompleted: body}
	ops := make([]string, 0, 1<<10)
	n := 0
	return func() {
		if n%cap(ops) == 0 { // the names, outside of what is measured
			ops = ops[:0]
			for i := range cap(ops) {
				ops = append(ops, fmt.Sprint("#", n+i+1))
			}
		}
		body.Op = ops[n%cap(ops)]
		n++
		in.Id++
		d, err := r.Fold(in)
		if err != nil || len(d) != 1 {
			tb.Fatalf("fold %d: %d decisions, %v", n, len(d), err)
		}
	}
}

// BenchmarkFold is one answer folded and one activity asked for; what is open
// beside it must not show.
func BenchmarkFold(b *testing.B) {
	for _, open := range []int{0, 100, 10_000} {
		b.Run(fmt.Sprintf("open=%d", open), func(b *testing.B) {
			next := looping(b, open)
			b.ReportAllocs()
			for b.Loop() {
				next()
			}
		})
	}
}

// BenchmarkFoldWorkflow is a whole run of one activity: made, started, answered,
// closed.
func BenchmarkFoldWorkflow(b *testing.B) {
	body := func(ctx replay.Context, _ *pb.Payload) replay.Result {
		_ = ctx.Wait(ctx.Schedule(&replay.Activity{Event: &pb.ActivityScheduled{Type: "Shop.Ship"}}))
		return replay.Result{}
	}
	b.ReportAllocs()
	start := started(1)
	done := &pb.Event{Id: 2, Body: &pb.Event_ActivityCompleted{ActivityCompleted: &pb.ActivityCompleted{Op: "#1"}}}
	for b.Loop() {
		r := replay.New(replay.Config{}, body)
		for _, in := range []*pb.Event{start, done} {
			if d, err := r.Fold(in); err != nil || len(d) != 1 {
				b.Fatal(d, err)
			}
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAFoldAllocatesTheSameHoweverMuchIsOpen(t *testing.T) {
	few := testing.AllocsPerRun(2000, looping(t, 0))
	many := testing.AllocsPerRun(2000, looping(t, 10_000))
	if few > 12 || many > few+0.5 {
		t.Errorf("a fold allocates %v times, and %v with 10,000 operations open", few, many)
	}
}
