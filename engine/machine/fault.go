package machine

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// fault takes a worker's word that its build cannot go on with the run, or that
// it can after all.
func (s *Shard) fault(in *Fault) {
	r := s.runs[storeRun(in.Run)]
	if in.Kind == pb.FaultKind_FAULT_KIND_RECOVERED {
		if r == nil {
			s.load(store.Key{Run: storeRun(in.Run)}, in)
			return
		}
		s.recovered(r, in)
		return
	}
	s.ack(nil, in.Origin)
	if !s.current(r, in.Origin, in.Stamp) {
		return
	}
	if in.Kind != pb.FaultKind_FAULT_KIND_BLOCKED {
		s.acquit(r, &r.fold) // it has answered, in its way
	}
	s.misfit(r, in.Build, in.Failure)
}

// misfit excludes the build for the run. Another connected build gets it; with
// none the run is held, and goes on when one that fits connects.
func (s *Shard) misfit(r *Run, build string, f *pb.Failure) {
	s.recall(r)
	if !slices.Contains(r.excluded, build) {
		r.excluded = append(r.excluded, build)
	}
	r.State.Hold = &pb.Hold{
		Kind: pb.HoldKind_HOLD_KIND_STUCK, Reason: f.GetMessage(), Since: s.now, Builds: slices.Clone(r.excluded), Failure: f,
	}
	s.change(r).Touched = true
	s.reassign(r)
}

// recovered takes the build off those that cannot go on with the run: the code
// that was reported as blocked has ended. The run was taken from it then, so the
// word comes under an old stamp, and counts for the build alone; said too late or
// twice, it at most has a build tried again.
func (s *Shard) recovered(r *Run, in *Fault) {
	// Not before it is durable: nobody would say it again.
	s.ack(r, in.Origin)
	if !slices.Contains(r.excluded, in.Build) {
		return
	}
	r.excluded = slices.DeleteFunc(r.excluded, func(b string) bool { return b == in.Build })
	if r.State.Hold != nil {
		// A copy: who has described the run may still be reading it.
		h := proto.CloneOf(r.State.Hold)
		h.Builds = slices.Clone(r.excluded)
		if r.State.Hold = h; h.Kind == pb.HoldKind_HOLD_KIND_STUCK && len(h.Builds) == 0 {
			r.State.Hold = nil
		}
		s.change(r).Touched = true
	}
	if r.holder.phase == holderWaiting {
		s.unassign(r)
		s.assign(r)
	}
}

// hold stops the run, with its reason for people to see. No restart ends it.
func (s *Shard) hold(r *Run, kind pb.HoldKind, reason string, f *pb.Failure) {
	s.recall(r)
	before := r.pausedEntries()
	r.State.Deaths, r.accused, r.quarantined = 0, nil, false
	delete(s.quarantined, r.Row.Run)
	r.State.Hold = &pb.Hold{Kind: kind, Reason: reason, Since: s.now, Failure: f, Builds: slices.Clone(r.excluded)}
	s.change(r).Touched = true
	s.holdBack(r)
	s.resumeAll(r, before)
}
