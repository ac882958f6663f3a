package saga

import (
	"fmt"

	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/codec"
)

// Outcome is what is known of the step that is to be undone.
type Outcome string

const (
	// Done: the step completed.
	Done Outcome = "done"
	// Unknown: the step was sent and not answered, or with an error that does
	// not say that nothing happened. It may have had its effect, and may still
	// have it.
	Unknown Outcome = "unknown"
)

// Undo is the input of an activity that undoes a step of (In, Res).
//
// An undo must be idempotent. One with the outcome Unknown means: undo the step
// if it was done, else make it impossible. It asks the service by ForwardKey what
// happened, and seals that key there if nothing has, so that a request that is
// still on its way does nothing when it comes. A final error of an undo says that
// it cannot be done, and calls for people.
type Undo[In, Res any] struct {
	// Input is the step's.
	Input In
	// Result is the step's; the zero value unless Outcome is Done.
	Result  Res
	Outcome Outcome
	// Key is the idempotency key of the undo, the same for all its attempts.
	Key string
	// ForwardKey is the idempotency key that the step had.
	ForwardKey string
}

// UnmarshalUndo fills u from what the engine sends. The worker calls it, and
// knows the inputs of undos by it.
func (u *Undo[In, Res]) UnmarshalUndo(env *pb.UndoEnvelope, key string, c codec.Codec) error {
	*u = Undo[In, Res]{Key: key, ForwardKey: env.GetForwardKey(), Outcome: Unknown}
	if env.GetOutcome() == pb.EntryOutcome_ENTRY_OUTCOME_DONE {
		u.Outcome = Done
	}
	if err := c.Decode(env.GetInput(), &u.Input); err != nil {
		return fmt.Errorf("the input of the step that is to be undone: %w", err)
	}
	if u.Outcome != Done {
		return nil
	}
	if _, nothing := any(u.Result).(struct{}); nothing {
		return nil
	}
	if err := c.Decode(env.GetResult(), &u.Result); err != nil {
		return fmt.Errorf("the result of the step that is to be undone: %w", err)
	}
	return nil
}
