package machine

import (
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

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
