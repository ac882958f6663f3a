package sdktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/engined/engined/engine"
	pb "github.com/engined/engined/proto/enginepb"
)

// HeldError is what an awaited run gives that has been held for a minute of
// virtual time: its code panicked, does not fit its history or does not come back,
// or no worker knows it. In production such a run waits until somebody acts; a
// test would wait for ever.
type HeldError struct {
	WorkflowID, RunID, WorkflowType string
	// Hold has the reason, and the failure with its stack.
	Hold *pb.Hold
	// NoWorkers: no worker is connected at all.
	NoWorkers bool
}

func (e *HeldError) Error() string {
	s := fmt.Sprintf("workflow %s (%s, run %s) is held, %s: %s", e.WorkflowID, e.WorkflowType, e.RunID,
		strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e.Hold.GetKind().String(), "HOLD_KIND_")), "_", " "), e.Hold.GetReason())
	if e.NoWorkers {
		return s + ": no worker is connected; was Env.Start called?"
	}
	if stack := e.Hold.GetFailure().GetStack(); stack != "" {
		s += "\n" + stack
	}
	return s
}

// service is the engine, with an end to waits for runs that are held.
type service struct{ *engine.Engine }

// Await is the engine's, but for runs that are held.
func (s service) Await(ctx context.Context, req *pb.AwaitRequest) (*pb.AwaitResponse, error) {
	return unlessHeld(ctx, s, req.Run, func(ctx context.Context) (*pb.AwaitResponse, error) { return s.Engine.Await(ctx, req) })
}

// Start is the engine's, but for runs that are awaited and held.
func (s service) Start(ctx context.Context, req *pb.StartRequest) (*pb.StartResponse, error) {
	if !req.Await {
		return s.Engine.Start(ctx, req)
	}
	ref := &pb.RunRef{Namespace: req.Namespace, WorkflowId: req.WorkflowId}
	return unlessHeld(ctx, s, ref, func(ctx context.Context) (*pb.StartResponse, error) { return s.Engine.Start(ctx, req) })
}

// The first look at an awaited run comes after firstLook; a run that is held then
// and at the next look, a minute later, is not waited for. While all is well the
// looks become rarer, since tests let weeks pass.
const (
	firstLook = time.Minute
	maxLook   = time.Hour
)

func unlessHeld[T any](ctx context.Context, s service, ref *pb.RunRef, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &look{s: s, ref: ref, ctx: ctx, cancel: cancel, next: firstLook}
	l.timer.Store(time.AfterFunc(firstLook, l.look))
	defer func() { l.timer.Load().Stop() }()
	res, err := call(ctx)
	var held *HeldError
	if err != nil && errors.As(context.Cause(ctx), &held) {
		return res, held
	}
	return res, err
}

// look watches one wait.
type look struct {
	s      service
	ref    *pb.RunRef
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  atomic.Pointer[time.Timer]
	next   time.Duration
	held   bool
}

func (l *look) look() {
	d, err := l.s.Describe(l.ctx, &pb.DescribeRequest{Run: l.ref})
	if l.ctx.Err() != nil {
		return
	}
	switch held := err == nil && d.Info.Hold.GetKind() != pb.HoldKind_HOLD_KIND_NONE; {
	case held && l.held:
		l.cancel(&HeldError{
			WorkflowID: d.Info.WorkflowId, RunID: d.Info.RunId, WorkflowType: d.Info.Type, Hold: d.Info.Hold,
			NoWorkers: l.s.Stats().Workers == 0,
		})
		return
	case held:
		l.held, l.next = true, firstLook
	default:
		l.held, l.next = false, min(2*l.next, maxLook)
	}
	l.timer.Load().Reset(l.next)
}

// testLog writes to a test's log until the test ends.
type testLog struct {
	t     testing.TB
	ended atomic.Bool
}

func (l *testLog) Write(p []byte) (int, error) {
	if !l.ended.Load() {
		l.t.Log(strings.TrimRight(string(p), "\n"))
	}
	return len(p), nil
}
