package workflow

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/failure"
)

// Context is handed to a workflow and to each of its coroutines. It says which
// coroutine calls and what can cancel the call, and is valid on that coroutine
// alone: a call with another one's context, or from a goroutine that the code
// started itself, is a fault for which the run is held. It is no
// context.Context, so that it cannot end up in something that blocks.
type Context struct {
	rt    replay.Context
	codec codec.Codec
}

// Runtime is for the other packages of this module; its type is internal.
func (c Context) Runtime() replay.Context { return c.rt }

// Bind makes a workflow function into what a worker folds. c encodes and decodes
// all that the workflow sends and gets; nil is codec.Default. An input that
// cannot be decoded and a result that cannot be recorded are faults for which
// the run is held.
func Bind[In, Out any](fn func(Context, In) (Out, error), c codec.Codec) replay.Body {
	c = codec.Checked(c)
	return func(rt replay.Context, input *pb.Payload) replay.Result {
		var in In
		if err := c.Decode(input, &in); err != nil {
			return replay.Result{Fault: &replay.Undecodable{Err: err}}
		}
		out, err := fn(Context{rt: rt, codec: c}, in)
		if err != nil {
			return replay.Result{Failure: failure.Encode(err, c), Canceled: errors.Is(err, ErrCanceled)}
		}
		p, err := c.Encode(out)
		if err != nil {
			return replay.Result{Fault: &replay.Unencodable{Err: err}}
		}
		return replay.Result{Payload: p}
	}
}

// Now is the time at which the input being folded was recorded, in UTC. It
// stands still while the code runs, and never goes back.
func Now(ctx Context) time.Time { return ctx.rt.Now() }

// Rand is a source of random numbers for the coroutine, the same on every
// replay. Not for secrets.
func Rand(ctx Context) *rand.Rand { return ctx.rt.Rand() }

// NewID returns an id that no other call in any run returns, the same on every
// replay: a UUID of version 7, which sorts by time.
func NewID(ctx Context) string { return ctx.rt.NewID() }

// Logger logs for the run. It is silent on replay, so that each record is
// written once; records have the time of Now, and are written when what they
// rest on is durable. After a crash some may come again. Values are formatted at
// once. The logger may be kept.
func Logger(ctx Context) *slog.Logger { return ctx.rt.Logger() }

// Info tells a workflow about its run.
type Info struct {
	Namespace  string
	WorkflowID string
	RunID      string
	// ChainID is the id of the first run of the chain that this run is part of.
	ChainID string
	Type    string
	Queue   string
	// Started is when the run was started.
	Started time.Time
}

// GetInfo returns what is known about the run.
func GetInfo(ctx Context) Info {
	s, at := ctx.rt.Started()
	return Info{
		Namespace: s.Namespace, WorkflowID: s.WorkflowId, RunID: s.RunId, ChainID: s.ChainId,
		Type: s.Type, Queue: s.Queue, Started: at,
	}
}

// Go runs fn as a coroutine beside the caller, from when the caller waits. Use
// the context that fn gets. A coroutine that still waits when the workflow's
// function returns is unwound.
func Go(ctx Context, fn func(Context)) {
	c := ctx.codec
	ctx.rt.Go(func(rt replay.Context) { fn(Context{rt: rt, codec: c}) })
}

// WithCancel returns a context that ends with ctx or when cancel is called, with
// everything that was started under it. cancel may be called on any coroutine
// of the run, and more than once.
func WithCancel(ctx Context) (scoped Context, cancel func()) {
	rt, end := ctx.rt.WithCancel()
	return Context{rt: rt, codec: ctx.codec}, func() { end("by the workflow's code") }
}

// Detached returns a context that no cancel reaches, for cleaning up. The engine
// still closes a cancelled run whose code has not ended within the grace (1
// minute, unless the start says otherwise).
func Detached(ctx Context) Context {
	return Context{rt: ctx.rt.Detached(), codec: ctx.codec}
}

// Canceled returns an error with ErrCanceled in it if ctx is cancelled, else nil.
func Canceled(ctx Context) error { return ctx.rt.Canceled() }
