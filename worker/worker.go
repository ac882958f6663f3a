package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/engined/engined/internal/svc"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/failure"
)

// Worker runs the workflows and activities registered with it. Make it with New,
// register, and Start it once.
type Worker struct {
	conn     Conn
	opts     Options
	registry *registry
	// id is drawn at random for each Worker: it names this process to the
	// engine, and no other before or after it.
	id string

	mu       sync.Mutex
	group    *svc.Group // nil before Start
	session  *session   // nil while there is no stream
	tasks    map[taskKey]*task
	idle     chan struct{} // closed when no task runs; nil when nobody waits
	running  int
	stopping bool
	stopped  sync.Once
	stopErr  error
}

// New returns a worker that reaches its engine by conn. Nothing happens before
// Start.
func New(conn Conn, o Options) *Worker {
	return &Worker{
		conn: conn, opts: o.withDefaults(), registry: newRegistry(), id: rand.Text(), tasks: map[taskKey]*task{},
	}
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
	if w.group != nil || w.stopping {
		return ErrStarted
	}
	// The worker ends by Stop, which lets activities finish.
	w.group = svc.New(context.WithoutCancel(ctx))
	w.group.Go("worker stream", w.connect)
	return nil
}

// Run is Start, and Stop with Options.Grace when ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(w.opts.Grace, 0))
	defer cancel()
	return w.Stop(grace)
}

// unwindTime is how long activities may take to return when their contexts were
// cancelled by Stop.
const unwindTime = 2 * time.Second

// Stop ends the worker in two stages. At once it takes nothing new, and gives
// back what it has not begun. What runs may finish until ctx ends; then its
// contexts are cancelled, and it is reported as interrupted, which uses no
// attempt. Stop returns when nothing of the worker runs any more, or with an
// error that names the activities which do not heed their contexts. A second
// Stop waits for the first.
func (w *Worker) Stop(ctx context.Context) error {
	w.stopped.Do(func() { w.stopErr = w.stop(ctx) })
	return w.stopErr
}

func (w *Worker) stop(ctx context.Context) error {
	w.mu.Lock()
	w.stopping = true
	group := w.group
	if w.session != nil {
		w.session.out.put(item{draining: true})
	}
	idle := w.whenIdle()
	w.mu.Unlock()
	if group == nil {
		return nil
	}
	err := w.finish(ctx, idle)
	w.mu.Lock()
	s := w.session
	w.mu.Unlock()
	if s != nil {
		s.out.close() // what is in it goes up, and then the stream ends
		<-s.out.done
	}
	group.Stop(errStopped)
	slack, cancel := context.WithTimeout(context.WithoutCancel(ctx), unwindTime)
	defer cancel()
	return errors.Join(err, group.WaitFor(slack))
}

var errStopped = errors.New("the worker was stopped")

// finish waits for the tasks that run, and interrupts them when ctx ends.
func (w *Worker) finish(ctx context.Context, idle <-chan struct{}) error {
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	for _, t := range w.tasks {
		if t.done == nil {
			t.cancel(&activity.InterruptedError{})
		}
	}
	w.mu.Unlock()
	slack := time.NewTimer(unwindTime)
	defer slack.Stop()
	select {
	case <-idle:
		return nil
	case <-slack.C:
		return fmt.Errorf("stop worker: these activities do not end although their contexts are cancelled: %v", w.stubborn())
	}
}

// whenIdle returns a channel that is closed when no task runs. mu is held.
func (w *Worker) whenIdle() <-chan struct{} {
	if w.idle == nil {
		w.idle = make(chan struct{})
		if w.running == 0 {
			close(w.idle)
		}
	}
	return w.idle
}

// stubborn names the tasks that still run.
func (w *Worker) stubborn() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tasks {
		if t.done == nil {
			names = append(names, fmt.Sprintf("%s of %s", t.t.Type, t.t.WorkflowId))
		}
	}
	return names
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
