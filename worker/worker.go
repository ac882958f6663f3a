package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/engined/engined/internal/svc"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/failure"
)

// Worker runs the workflows and activities registered with it. Make it with New,
// register, and Start it once.
type Worker struct {
	conn Conn
	// disconnect is called at the end of Stop, if it is not nil.
	disconnect func() error
	opts       Options
	registry   *registry
	// id is drawn at random for each Worker: it names this process to the
	// engine, and no other before or after it.
	id string

	mu      sync.Mutex
	changed sync.Cond  // anything below that Stop waits for
	group   *svc.Group // nil before Start
	session *session   // nil while there is no stream
	// tasks are the deliveries that the process has: running of them run, of
	// held the result is not known to be durable.
	tasks         map[taskKey]*task
	running, held int
	// copies are the newest copies of runs, also of those that are dropped and
	// have not ended yet.
	copies map[int64]*run
	// recoveries are what the engine has not heard yet of code that was blocked.
	recoveries map[*pb.Fault]struct{}
	// draining: nothing new is begun. closing: no other stream is opened.
	// refused: the engine has said that it will not serve again.
	draining, closing, refused bool
	// listening: somebody judges silence. heard counts the engine's messages.
	listening bool
	heard     atomic.Int64
	// bytes counts what comes from the network, where there is one: a large message
	// is a sign of life long before it is whole.
	bytes *atomic.Int64

	watch watch
	logs  logbook

	// stopped is made by the first Stop and closed at its end, after which
	// stopErr is read.
	stopped chan struct{}
	stopErr error
}

// New returns a worker that reaches its engine by conn. Nothing happens before
// Start.
func New(conn Conn, o Options) *Worker {
	w := &Worker{
		conn: conn, opts: o.withDefaults(), registry: newRegistry(), id: rand.Text(),
		tasks: map[taskKey]*task{}, copies: map[int64]*run{}, recoveries: map[*pb.Fault]struct{}{},
	}
	w.watch.busy = map[*run]struct{}{}
	w.changed.L = &w.mu
	w.bytes = new(atomic.Int64)
	return w
}

// ErrStarted is returned by a second Start.
var ErrStarted = errors.New("the worker has been started before: make another")

// Start connects to the engine and takes work, until Stop. It returns at once;
// while there is no engine it tries again. The error joins all that is wrong
// with the options, with what was registered, and with registered errors. ctx
// bounds nothing but Start.
func (w *Worker) Start(ctx context.Context) error {
	if err := errors.Join(ctx.Err(), w.opts.validate(), w.registry.seal(), failure.Check()); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.group != nil || w.draining {
		return ErrStarted
	}
	// The worker ends by Stop, which lets activities finish.
	w.group = svc.New(context.WithoutCancel(ctx))
	w.group.Run("worker stream", w.connect, func(err error) error {
		if err != nil {
			w.opts.Logger.Error("the worker has ended by a fault of its own", "err", err)
		}
		return err
	})
	return nil
}

// Run is Start, and Stop with Options.Grace when ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-w.group.Context().Done(): // stopped by someone else, or at fault
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(w.opts.Grace, 0))
	defer cancel()
	return w.Stop(grace)
}

// hello says what the worker can run, and which deliveries it has.
func (w *Worker) hello() *pb.Hello {
	h := &pb.Hello{
		Protocol: Protocol, Namespace: w.opts.Namespace, Queue: w.opts.Queue, Worker: w.id,
		Build: w.opts.Build, Identity: w.opts.Identity, Slots: int32(w.opts.Slots),
		WorkflowTypes: w.registry.workflowNames(), ActivityTypes: w.registry.activityNames(),
	}
	for _, t := range w.tasks {
		h.Received = append(h.Received, t.t.Delivery)
	}
	return h
}
