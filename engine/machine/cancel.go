package machine

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

// graceOp is the op of the entry that ends a cancelled run whose code does not.
const graceOp = "!grace"

// DedupLife is how long a request id is remembered, in ns: 7 days.
const DedupLife = int64(7 * 24 * 3600 * 1e9)

func (s *Shard) cancel(in *Cancel) {
	s.load(refKey(in.Req.Run, in.Req.RequestId), in)
}

// refKey names the rows that tell of a run and, if it has one, of a request.
func refKey(ref *pb.RunRef, request string) store.Key {
	return store.Key{Namespace: ref.Namespace, WorkflowID: ref.WorkflowId, RunID: ref.RunId, Request: request}
}

func (s *Shard) cancelLoaded(in *Cancel, r *Run, dedup *store.DedupRow) {
	if r == nil {
		s.fail(in.To, notFound("cancel", in.Req.Run))
		return
	}
	repeated := dedup != nil || s.usedBy(r.id(), in.Req.RequestId) != 0
	if repeated || r.decided() || r.State.CancelEvent != 0 {
		res := &pb.CancelResponse{Already: true}
		if r.decided() && !repeated {
			res.Status = pb.Status(r.Row.Status)
		}
		s.reply(r, in.To, res)
		return
	}
	e := s.record(r, &pb.Event{Body: &pb.Event_CancelRequested{CancelRequested: &pb.CancelRequested{
		Reason: in.Req.Reason, RequestId: in.Req.RequestId, Identity: in.Req.Identity,
	}}})
	r.State.CancelEvent = e.Id
	s.use(r, in.Req.RequestId, e)
	g := &Entry{Op: graceOp, P: &pb.Pending{Body: &pb.Pending_Grace{Grace: &pb.PendingGrace{
		Due: later(s.now, r.State.CancelGrace),
	}}}}
	r.Entries[g.Op] = g
	s.put(r, g)
	s.reply(r, in.To, &pb.CancelResponse{})
}

// use remembers the request that has caused e, so that a repeat does nothing.
func (s *Shard) use(r *Run, request string, e *pb.Event) {
	r.requests = append(r.requests, request)
	s.remember(r, request, e.Id)
}

// remember writes the dedup row of a request on the run.
func (s *Shard) remember(r *Run, request string, event int64) {
	// The message has a scalar and a string: it cannot fail to encode.
	data, _ := proto.Marshal(&pb.DedupState{RunId: r.Row.RunID, Event: event})
	c := s.change(r)
	c.Touched = true
	c.Dedup = append(c.Dedup, store.DedupRow{
		Namespace: r.Row.Namespace, WorkflowID: r.Row.WorkflowID, Request: request,
		Run: r.Row.Run, Expires: s.now + DedupLife, Data: data,
	})
}

// usedBy returns the run of the id in memory that the request has cancelled or
// terminated, or 0. Its dedup row may not be durable yet.
func (s *Shard) usedBy(id ID, request string) store.RunNo {
	for r := s.ids[id]; r != nil; r = r.older {
		if slices.Contains(r.requests, request) {
			return r.Row.Run
		}
	}
	return 0
}

func notFound(op string, ref *pb.RunRef) error {
	what := "no run has the workflow id " + ref.WorkflowId
	if ref.RunId != "" {
		what = "the workflow id " + ref.WorkflowId + " has no run " + ref.RunId
	}
	return apierr.New(apierr.NotFound, op, what+" in namespace "+ref.Namespace, "list the runs to see which there are")
}

// graceOver closes a cancelled run whose code has not ended in time.
func (s *Shard) graceOver(r *Run, e *Entry) {
	s.drop(r, e)
	s.recall(r)
	s.closeRun(r, s.note(r, &pb.Event{Body: &pb.Event_WorkflowCancelled{WorkflowCancelled: &pb.WorkflowCancelled{
		Reason: "the code did not end within its grace",
	}}}))
}

func (s *Shard) terminate(in *Terminate) {
	s.load(refKey(in.Req.Run, in.Req.RequestId), in)
}

// terminateLoaded ends the run without asking its code, whatever holds it: what
// is armed is undone by the engine. The caller is told when the end is decided;
// those who await the run, when it is settled.
func (s *Shard) terminateLoaded(in *Terminate, r *Run, dedup *store.DedupRow) {
	if r == nil {
		s.fail(in.To, notFound("terminate", in.Req.Run))
		return
	}
	used := s.usedBy(r.id(), in.Req.RequestId)
	if used == 0 && dedup != nil {
		used = dedup.Run
	}
	switch {
	case r.decided() || used != 0 && used != r.Row.Run:
		// Used, and not on this run: it has ended one that had the id before.
		res := &pb.TerminateResponse{Already: true}
		if used == 0 {
			res.Status = pb.Status(r.Row.Status)
		}
		s.reply(r, in.To, res)
		return
	case used != 0:
		// By a cancel: "already" would be a lie.
		s.after(r, Reply{To: in.To, Err: apierr.New(apierr.AlreadyExists, "terminate "+r.Row.WorkflowID,
			"the request id was used by another request on this workflow id", "use a request id only once")})
		return
	}
	s.recall(r)
	e := s.note(r, &pb.Event{Body: &pb.Event_WorkflowTerminated{WorkflowTerminated: &pb.WorkflowTerminated{
		Reason: in.Req.Reason, RequestId: in.Req.RequestId, Identity: in.Req.Identity,
	}}})
	s.use(r, in.Req.RequestId, e)
	s.reply(r, in.To, &pb.TerminateResponse{})
	s.closeRun(r, e)
}
