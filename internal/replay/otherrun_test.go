package replay_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/workflow"
)

// leak is a run whose context, and a future of which, have got out.
type leak struct {
	*engine
	ctx   workflow.Context
	timer *workflow.Future[time.Time]
	// reached is closed, if it is not nil, when the leak is there; the code waits for
	// release then, and has control.
	reached, release chan struct{}
}

// newLeak makes one that is not being folded. With deep it has control in another
// coroutine than the one whose context has got out.
func newLeak(t *testing.T, deep bool) *leak {
	l := &leak{}
	blocks := func() {
		if l.reached != nil {
			close(l.reached)
			<-l.release
		}
	}
	l.engine = newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		l.ctx, l.timer = ctx, workflow.NewTimer(ctx, time.Hour)
		if deep {
			workflow.Go(ctx, func(workflow.Context) { blocks() })
		} else {
			blocks()
		}
		_, err := l.timer.Get(ctx)
		return "unharmed", err
	}, "")
	return l
}

// harmless fails unless the run goes on as if nothing had been.
func (l *leak) harmless(t *testing.T) {
	t.Helper()
	if l.err != nil {
		t.Fatalf("the innocent run is held: %v", l.err)
	}
	if len(l.log) != 2 {
		t.Fatalf("something was asked for in its name:\n%s", lines(l.log))
	}
	if got := resultOf[string](t, l.fired("#1")); got != "unharmed" {
		t.Error(got)
	}
}

var callsOfOthers = map[string]func(*leak, workflow.Context){
	"Do":         func(l *leak, _ workflow.Context) { _, _ = workflow.Do(l.ctx, shop.Ship, "x") },
	"Sleep":      func(l *leak, _ workflow.Context) { _ = workflow.Sleep(l.ctx, time.Second) },
	"Select":     func(l *leak, _ workflow.Context) { _ = workflow.Select(l.ctx, workflow.After(time.Hour, nil)) },
	"Await":      func(l *leak, _ workflow.Context) { _ = workflow.Await(l.ctx, func() bool { return true }) },
	"Go":         func(l *leak, _ workflow.Context) { workflow.Go(l.ctx, func(workflow.Context) {}) },
	"WithCancel": func(l *leak, _ workflow.Context) { workflow.WithCancel(l.ctx) },
	"Commit":     func(l *leak, _ workflow.Context) { saga.Commit(l.ctx) },
	"Compensate": func(l *leak, _ workflow.Context) { _ = saga.Compensate(workflow.Detached(l.ctx)) },
	"a future":   func(l *leak, ctx workflow.Context) { _, _ = l.timer.Get(ctx) },
	"a case":     func(l *leak, ctx workflow.Context) { _ = workflow.Select(ctx, workflow.On(l.timer, nil)) },
}

func useOf(t *testing.T, l *leak, call func(*leak, workflow.Context)) error {
	t.Helper()
	return faultOf(t, newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		call(l, ctx)
		return "", errors.New("the call returned")
	}, ""))
}

func TestWhoUsesWhatBelongsToAnotherRunIsHeldAndTheOtherIsNot(t *testing.T) {
	looks := map[string]func(*leak, workflow.Context){
		"Now":      func(l *leak, _ workflow.Context) { workflow.Now(l.ctx) },
		"NewID":    func(l *leak, _ workflow.Context) { workflow.NewID(l.ctx) },
		"Canceled": func(l *leak, _ workflow.Context) { _ = workflow.Canceled(l.ctx) },
		"in a condition": func(l *leak, ctx workflow.Context) {
			_ = workflow.Await(ctx, func() bool { return workflow.Now(l.ctx).IsZero() })
		},
	}
	for _, calls := range []map[string]func(*leak, workflow.Context){callsOfOthers, looks} {
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				l := newLeak(t, false)
				l.fold()
				err := useOf(t, l, call)
				checkMisuse(t, err)
				l.harmless(t)
			})
		}
	}
}

func checkMisuse(t *testing.T, err error) {
	t.Helper()
	var m *replay.Misuse
	if !errors.As(err, &m) || !strings.HasPrefix(m.Call, "otherrun_test.go:") || !strings.Contains(m.Why, "another run") {
		t.Errorf("the run is held for %v", err)
	}
	if replay.FaultKind(err) != pb.FaultKind_FAULT_KIND_PANIC {
		t.Errorf("fault kind %v", replay.FaultKind(err))
	}
}

// The other run is folded at the same time: the coroutine whose context it is has
// control, or one of its siblings.
func TestTwoRunsThatAreFoldedAtOnceAreToldApart(t *testing.T) {
	for _, deep := range []bool{false, true} {
		for name, call := range callsOfOthers {
			l := newLeak(t, deep)
			l.reached, l.release = make(chan struct{}), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { l.fold() })
			<-l.reached
			err := useOf(t, l, call)
			close(l.release)
			wg.Wait()
			t.Run(name, func(t *testing.T) {
				checkMisuse(t, err)
				l.harmless(t)
			})
		}
	}
}
