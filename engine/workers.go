package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/match"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/clock"
	"github.com/engined/engined/internal/fault"
	pb "github.com/engined/engined/proto/enginepb"
)

// Protocol is the version of the worker stream.
const Protocol = 1

// workers are the streams that are open, by the worker's id.
type workers struct {
	e *Engine
	// coming is held while a worker comes or goes, so that the shards and the
	// desk hear of both in the order in which they happened.
	coming sync.Mutex
	mu     sync.Mutex
	by     map[string]*WorkerStream
	opened atomic.Int64 // streams so far
}

// WorkerStream is the engine's end of one worker's stream. A transport calls
// Receive with what the worker sends, sends what Next returns, and says how the
// stream ended: by Leave if the worker ended it, by Break if it broke. In one
// process the worker's end calls them itself.
type WorkerStream struct {
	e      *Engine
	hello  *pb.Hello
	number int64 // no other stream of this engine has it
	since  int64

	mu       sync.Mutex
	next     *pb.WorkerDown // what is ready to go down
	empty    bool
	unsent   []*pb.Delivery // of next.Tasks, those that were never sent before
	ready    chan struct{}
	err      error // why the stream has ended
	acks     acks
	heard    int64 // when the worker last sent anything
	draining bool
	slow     int // runs whose code has not given control back for long
}

// Connect opens a worker's stream with its hello. A stream of the same worker
// that is still open is ended: the worker knows best that it is broken.
func (e *Engine) Connect(hello *pb.Hello) (*WorkerStream, error) {
	if err := checkHello(hello); err != nil {
		return nil, err
	}
	if err := e.serving("connect"); err != nil {
		return nil, err
	}
	now := e.clock.Now()
	w := &WorkerStream{e: e, hello: hello, number: e.workers.opened.Add(1), since: now, heard: now, ready: make(chan struct{}, 1), acks: newAcks()}
	w.reset()
	w.next.Welcome = &pb.Welcome{Protocol: Protocol, Engine: e.id}
	w.touch()
	e.workers.coming.Lock()
	defer e.workers.coming.Unlock()
	if old := e.workers.replace(w); old != nil {
		old.end(apierr.New(apierr.FailedPrecondition, "work", "the worker has opened another stream", ""))
		e.lose(hello.Worker, true) // it lives
	}
	e.desk.connect(match.Worker{
		ID: hello.Worker, Namespace: hello.Namespace, Queue: hello.Queue, Build: hello.Build,
		WorkflowTypes: hello.WorkflowTypes, ActivityTypes: hello.ActivityTypes, Slots: int(hello.Slots),
	})
	e.log.Info("a worker is here", "identity", hello.Identity, "queue", hello.Queue, "build", hello.Build, "worker", hello.Worker)
	fault.At(fault.Connect)
	for _, s := range e.shards {
		s.post(&machine.WorkerBack{Worker: hello.Worker, Received: hello.Received})
	}
	return w, nil
}

func checkHello(h *pb.Hello) error {
	bad := func(msg, hint string) error { return apierr.New(apierr.InvalidArgument, "connect", msg, hint) }
	switch {
	case h == nil:
		return bad("the first message of a stream must be a hello", "")
	case h.Protocol != Protocol:
		return bad(fmt.Sprintf("the worker speaks protocol %d, this engine speaks %d", h.Protocol, Protocol), "use the same release on both sides")
	case len(h.Received) > maxReceived:
		return bad(fmt.Sprintf("%d deliveries received, the limit is %d", len(h.Received), maxReceived), "")
	case h.Slots < 0:
		return bad(fmt.Sprintf("%d slots", h.Slots), "give 0 or more")
	}
	if n := len(h.WorkflowTypes) + len(h.ActivityTypes); n > maxTypes {
		return bad(fmt.Sprintf("%d workflow and activity types, the limit is %d", n, maxTypes), "spread them over several task queues")
	}
	errs := []error{
		history.CheckName("namespace", h.Namespace), history.CheckName("task queue", h.Queue),
		history.CheckName("build", h.Build), history.CheckID("worker", h.Worker), history.CheckText("identity", h.Identity),
	}
	for _, name := range h.WorkflowTypes {
		errs = append(errs, history.CheckName("workflow type", name))
	}
	for _, name := range h.ActivityTypes {
		errs = append(errs, history.CheckName("activity type", name))
	}
	for _, err := range errs {
		if err != nil {
			return apierr.Wrap(apierr.InvalidArgument, "connect", err)
		}
	}
	return nil
}

// The bounds of what one worker may say that it knows, and that it has.
const (
	maxTypes    = 10_000
	maxReceived = 100_000
)

// replace puts the stream in the place of an older one of the same worker.
func (ws *workers) replace(w *WorkerStream) *WorkerStream {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	old := ws.by[w.hello.Worker]
	ws.by[w.hello.Worker] = w
	return old
}

func (ws *workers) get(id string) *WorkerStream {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.by[id]
}

// all lists the streams in the order in which they were opened.
func (ws *workers) all() []*WorkerStream {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	all := slices.Collect(maps.Values(ws.by))
	slices.SortFunc(all, func(a, b *WorkerStream) int { return cmp.Compare(a.number, b.number) })
	return all
}

// lose tells the shards that a worker is gone: orderly, if it is known not to
// have died.
func (e *Engine) lose(worker string, orderly bool) {
	suspects := e.desk.disconnect(worker)
	for _, s := range e.shards {
		s.post(&machine.WorkerGone{Worker: worker, Orderly: orderly, Suspects: suspects})
	}
}

// Leave ends a stream that the worker has ended, in order. Its runs go to others
// at once.
func (w *WorkerStream) Leave() {
	w.close(apierr.New(apierr.Closed, "work", "the stream is closed", ""), true)
}

// Break ends a stream that is broken, or whose worker has fallen silent: it may
// have died. Its runs go to others at once, its activities after a grace.
func (w *WorkerStream) Break(why error) {
	w.close(apierr.New(apierr.Unavailable, "work", "the stream is broken: "+why.Error(), "connect again"), false)
}

func (w *WorkerStream) close(why error, orderly bool) {
	ws := w.e.workers
	ws.coming.Lock()
	defer ws.coming.Unlock()
	if ws.remove(w) {
		if !orderly {
			w.e.counters.lost.Add(1)
			w.e.log.Warn("a worker is lost", "identity", w.hello.Identity, "queue", w.hello.Queue, "build", w.hello.Build, "worker", w.hello.Worker, "why", why)
		}
		// Before the worker hears of it: it comes back at once.
		w.e.lose(w.hello.Worker, orderly)
	}
	w.end(why)
}

// remove takes the stream off the list, if it is still its worker's.
func (ws *workers) remove(w *WorkerStream) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.by[w.hello.Worker] != w {
		return false
	}
	delete(ws.by, w.hello.Worker)
	return true
}

func (w *WorkerStream) end(err error) {
	w.mu.Lock()
	unsent := w.unsent
	w.unsent = nil
	if w.err == nil {
		w.err = err
		w.wake()
	}
	w.mu.Unlock()
	for _, d := range unsent {
		w.e.unbegun(w.hello.Worker, d)
	}
}

// unbegun tells a shard that a delivery never left the engine.
func (e *Engine) unbegun(worker string, d *pb.Delivery) {
	e.shards[store.RunNo(d.Run).Shard()].post(&machine.Done{
		Origin: machine.Origin{Worker: worker},
		Done: &pb.Done{Delivery: d, Outcome: pb.Outcome_OUTCOME_INTERRUPTED, Unbegun: true,
			Failure: &pb.Failure{Message: "it was never sent: the worker had gone"}},
	})
}

// Receive takes a message from the worker. It never blocks.
func (w *WorkerStream) Receive(up *pb.WorkerUp) error {
	w.mu.Lock()
	if err := w.err; err != nil {
		w.mu.Unlock()
		return err
	}
	w.heard = w.e.clock.Now()
	w.slow = len(up.Slow)
	w.draining = w.draining || up.Draining
	if up.Seq > 0 {
		moved, err := w.acks.expect(up.Seq, len(up.Decided)+len(up.Done)+len(up.Faults))
		if err != nil {
			w.mu.Unlock()
			return err
		}
		if moved {
			w.touch()
		}
	}
	w.mu.Unlock()
	if up.Draining {
		w.e.desk.drain(w.hello.Worker)
	}
	o := machine.Origin{Worker: w.hello.Worker, Build: w.hello.Build, Stream: w.number, Seq: up.Seq}
	for _, d := range up.Decided {
		fault.At(fault.ReceiveDecided)
		w.pass(o, d.Run, &machine.Decided{Origin: o, Decided: d})
	}
	for _, d := range up.Done {
		fault.At(fault.ReceiveDone)
		w.pass(o, d.Delivery.GetRun(), &machine.Done{Origin: o, Done: d})
	}
	for _, f := range up.Faults {
		w.pass(o, f.Run, &machine.Fault{Origin: o, Fault: f})
	}
	return nil
}

// pass posts to the run's shard; an item that names no shard is dealt with by
// being ignored.
func (w *WorkerStream) pass(o machine.Origin, run int64, in machine.Input) {
	if id := store.RunNo(run).Shard(); run >= 0 && int(id) < len(w.e.shards) {
		w.e.shards[id].post(in)
		return
	}
	w.e.workers.ack(machine.Ack{Worker: o.Worker, Stream: o.Stream, Seq: o.Seq})
}

// Next returns the next message for the worker: all that is ready, after one
// yield. It blocks until there is something, the stream ends, or ctx does.
func (w *WorkerStream) Next(ctx context.Context) (*pb.WorkerDown, error) {
	for {
		if w.e.clock.Wait(ctx, clock.Never, w.ready, nil, nil) == clock.Ended {
			return nil, context.Cause(ctx)
		}
		runtime.Gosched()
		w.mu.Lock()
		if w.err != nil {
			w.wake()
			err := w.err
			w.mu.Unlock()
			return nil, err
		}
		if !w.empty {
			down := w.next
			down.Durable = w.acks.durable
			w.reset()
			w.mu.Unlock()
			return down, nil
		}
		w.mu.Unlock()
	}
}

// Ping makes Next return, also if there is nothing to tell.
func (w *WorkerStream) Ping() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touch()
}

func (w *WorkerStream) reset() { w.next, w.empty, w.unsent = &pb.WorkerDown{}, true, nil }

// touch says that there is something to send; mu is held.
func (w *WorkerStream) touch() {
	w.empty = false
	w.wake()
}

func (w *WorkerStream) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// put adds to the next message down.
func (ws *workers) put(worker string, add func(*pb.WorkerDown)) {
	w := ws.get(worker)
	if w == nil {
		return // gone: what it had is reassigned or in its grace
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	add(w.next)
	w.touch()
}

func (ws *workers) send(m *machine.Send) {
	ws.put(m.Worker, func(d *pb.WorkerDown) {
		switch {
		case m.Assign != nil:
			d.Assign = append(d.Assign, m.Assign)
		case m.Input != nil:
			d.Inputs = append(d.Inputs, m.Input)
		case m.Drop != nil:
			d.Drops = append(d.Drops, m.Drop)
		}
	})
}

func (ws *workers) dispatch(m machine.Dispatch) {
	fault.At(fault.DispatchBefore)
	defer fault.At(fault.DispatchAfter)
	ws.e.counters.tasks.Add(1)
	w := ws.get(m.Worker)
	if m.First && m.Task.Deadline <= ws.e.clock.Now() {
		w = nil // its commit took longer than its time: it has been given up
	}
	if w == nil || !w.give(m) {
		// One that may have been sent before waits for its worker's return.
		if m.First {
			ws.e.unbegun(m.Worker, m.Task.Delivery)
		}
	}
}

// give adds a task to the next message down; false if there will be none.
func (w *WorkerStream) give(m machine.Dispatch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return false
	}
	w.next.Tasks = append(w.next.Tasks, m.Task)
	if m.First {
		w.unsent = append(w.unsent, m.Task.Delivery)
	}
	w.touch()
	return true
}

// ack counts an item of a worker's message as dealt with.
func (ws *workers) ack(a machine.Ack) {
	fault.At(fault.AckBefore)
	w := ws.get(a.Worker)
	if w == nil || w.number != a.Stream {
		return // its stream is over: the worker sends again what is not acknowledged
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.acks.done(a.Seq) {
		w.touch()
	}
}

func (ws *workers) cancel(c machine.CancelTask) {
	ws.put(c.Worker, func(d *pb.WorkerDown) { d.Cancels = append(d.Cancels, c.Cancel) })
}

// resync ends a worker's stream, so that it begins anew with what both sides
// know for certain.
func (ws *workers) resync(a machine.Ack) {
	if w := ws.get(a.Worker); w != nil && w.number == a.Stream {
		w.close(apierr.New(apierr.Unavailable, "work", "the engine lost track of what the worker sent", "connect again"), true)
	}
}
