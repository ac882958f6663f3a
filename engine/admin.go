package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/engined/engined/engine/match"
	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

// Ready says why the engine does not take requests, or nil. An engine whose
// database cannot write at present is not ready: it serves reads alone.
func (e *Engine) Ready() error {
	if err := e.serving("ready"); err != nil {
		return err
	}
	if err := e.mayWrite("ready"); err != nil {
		return err
	}
	return e.loader.ready()
}

// GetServerInfo tells what runs here; the transport fills in its version.
func (e *Engine) GetServerInfo(context.Context, *pb.ServerInfoRequest) (*pb.ServerInfo, error) {
	info := e.store.Info()
	res := &pb.ServerInfo{
		Shards: int32(info.Shards), Store: info.Path, Schema: int32(info.Schema),
		Protocol: Protocol, Engine: e.id, Started: e.opened, Ready: true,
	}
	if err := e.Ready(); err != nil {
		res.Ready, res.Reason = false, err.Error()
	}
	return res, nil
}

// ListWorkers tells which workers are here, in the order of their queues and
// identities.
func (e *Engine) ListWorkers(_ context.Context, req *pb.ListWorkersRequest) (*pb.ListWorkersResponse, error) {
	const op = "list workers"
	if err := e.servingNamespace(op, req.Namespace); err != nil {
		return nil, err
	}
	res := &pb.ListWorkersResponse{}
	for _, w := range e.workers.all() {
		if w.hello.Namespace == req.Namespace {
			res.Workers = append(res.Workers, w.info())
		}
	}
	slices.SortFunc(res.Workers, func(a, b *pb.WorkerInfo) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.Worker, b.Worker))
	})
	return res, nil
}

func (w *WorkerStream) info() *pb.WorkerInfo {
	used, runs := w.e.desk.usage(w.hello.Worker)
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hello
	return &pb.WorkerInfo{
		Worker: h.Worker, Identity: h.Identity, Namespace: h.Namespace, Queue: h.Queue, Build: h.Build,
		WorkflowTypes: h.WorkflowTypes, ActivityTypes: h.ActivityTypes,
		Slots: h.Slots, Free: max(h.Slots-int32(used), 0), Runs: int32(runs),
		Since: w.since, Heard: w.heard, Draining: w.draining, Slow: int32(w.slow),
	}
}

// ListQueues tells how the task queues stand that a worker serves or that
// something waits for.
func (e *Engine) ListQueues(_ context.Context, req *pb.ListQueuesRequest) (*pb.ListQueuesResponse, error) {
	const op = "list queues"
	if err := e.servingNamespace(op, req.Namespace); err != nil {
		return nil, err
	}
	res := &pb.ListQueuesResponse{}
	for _, q := range e.desk.queues(req.Namespace) {
		info := &pb.QueueInfo{
			Namespace: q.Namespace, Queue: q.Name,
			Workers: int32(q.Workers), Slots: int32(q.Slots), Free: int32(max(q.Slots-q.Used, 0)),
		}
		for _, t := range q.Types {
			info.Types = append(info.Types, &pb.QueueType{
				Type: t.Name, Workflow: t.Workflow, Workers: int32(t.Workers), Waiting: int32(t.Waiting),
			})
		}
		res.Queues = append(res.Queues, info)
	}
	return res, nil
}

func (e *Engine) servingNamespace(op, namespace string) error {
	if err := e.serving(op); err != nil {
		return err
	}
	if err := history.CheckName("namespace", namespace); err != nil {
		return apierr.Wrap(apierr.InvalidArgument, op, err)
	}
	return nil
}

// explain adds to a description what is known of the workers: who they are, and
// whether what a run waits for exists at all.
func (e *Engine) explain(d *pb.DescribeResponse) {
	d.Worker = e.whoIs(d.Worker)
	e.explainHold(d.Info, d.Info.Hold.GetKind() == pb.HoldKind_HOLD_KIND_NO_WORKER)
	for _, w := range d.Waiting {
		w.Worker = e.whoIs(w.Worker)
		if w.State != "waiting for a slot" {
			continue
		}
		if !e.desk.known(match.Need{Namespace: d.Info.Namespace, Queue: w.Queue, Type: w.Type}, false) {
			w.State = "no worker"
			w.Ends = "a worker on queue " + w.Queue + " that knows the activity type " + w.Type
		}
	}
}

// explainHold says of a run that has something to fold, and is not held otherwise,
// whether a worker for it exists at all.
func (e *Engine) explainHold(r *pb.RunInfo, waits bool) {
	k := r.Hold.GetKind()
	if !waits || k != pb.HoldKind_HOLD_KIND_NONE && k != pb.HoldKind_HOLD_KIND_NO_WORKER {
		return
	}
	known := e.desk.known(match.Need{Namespace: r.Namespace, Queue: r.Queue, Type: r.Type}, true)
	switch {
	case k == pb.HoldKind_HOLD_KIND_NO_WORKER && known:
		r.Hold.Reason = "the workers on queue " + r.Queue + " that know the workflow type " + r.Type + " are full, or their builds cannot go on with it"
	case k == pb.HoldKind_HOLD_KIND_NONE && !known:
		r.Hold = &pb.Hold{
			Kind:   pb.HoldKind_HOLD_KIND_NO_WORKER,
			Reason: "no connected worker on queue " + r.Queue + " knows the workflow type " + r.Type,
		}
	}
}

// whoIs puts the identity of a worker that is here beside its id.
func (e *Engine) whoIs(worker string) string {
	if w := e.workers.get(worker); w != nil && w.hello.Identity != "" {
		return w.hello.Identity + " (" + worker + ")"
	}
	return worker
}
