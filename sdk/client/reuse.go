package client

import (
	"fmt"

	pb "github.com/engined/engined/proto/enginepb"
)

// Conflict is what a start does when its workflow id has a run that is open.
type Conflict int

// The conflicts' answers; Fail is the default.
const (
	// Fail is an error, IsAlreadyExists, that names the run in the way.
	Fail Conflict = iota
	// UseExisting answers with the run that is open; Run.Started is then false.
	UseExisting
)

// String returns "fail" or "use-existing".
func (c Conflict) String() string {
	switch c {
	case Fail:
		return "fail"
	case UseExisting:
		return "use-existing"
	default:
		return fmt.Sprintf("conflict %d", int(c))
	}
}

// Reuse is what a start does when its workflow id has had runs, all closed.
type Reuse int

// The ways of reuse; AllowReuse is the default.
const (
	// AllowReuse starts another run.
	AllowReuse Reuse = iota
	// AllowIfNotCompleted starts another run unless the last one completed:
	// what has failed may be tried again, what is done is not done twice.
	AllowIfNotCompleted
	// RejectReuse is an error, IsAlreadyExists, whatever became of the last run.
	RejectReuse
)

// String returns "allow", "allow-if-not-completed" or "reject".
func (r Reuse) String() string {
	switch r {
	case AllowReuse:
		return "allow"
	case AllowIfNotCompleted:
		return "allow-if-not-completed"
	case RejectReuse:
		return "reject"
	default:
		return fmt.Sprintf("reuse %d", int(r))
	}
}

// policies writes the two into the request; they are closed sets.
func (s *start) policies() error {
	switch s.conflict {
	case Fail:
		s.req.Conflict = pb.ConflictPolicy_CONFLICT_POLICY_FAIL
	case UseExisting:
		s.req.Conflict = pb.ConflictPolicy_CONFLICT_POLICY_USE_EXISTING
	default:
		return fmt.Errorf("there is no answer to a conflict called %v", s.conflict)
	}
	switch s.reuse {
	case AllowReuse:
		s.req.Reuse = pb.ReusePolicy_REUSE_POLICY_ALLOW
	case AllowIfNotCompleted:
		s.req.Reuse = pb.ReusePolicy_REUSE_POLICY_ALLOW_IF_FAILED
	case RejectReuse:
		s.req.Reuse = pb.ReusePolicy_REUSE_POLICY_REJECT
	default:
		return fmt.Errorf("there is no reuse called %v", s.reuse)
	}
	return nil
}
