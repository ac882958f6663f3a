package machine

import (
	"slices"

	pb "github.com/engined/engined/proto/enginepb"
)

// fault takes a worker's word that its build cannot go on with the run.
func (s *Shard) fault(in *Fault) {
	r := s.runs[storeRun(in.Run)]
	s.ack(nil, in.Origin)
	if !s.current(r, in.Origin, in.Stamp) {
		return
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

// hold stops the run, with its reason for people to see.
func (s *Shard) hold(r *Run, kind pb.HoldKind, reason string, f *pb.Failure) {
	s.recall(r)
	r.State.Hold = &pb.Hold{Kind: kind, Reason: reason, Since: s.now, Failure: f, Builds: slices.Clone(r.excluded)}
	s.change(r).Touched = true
}
