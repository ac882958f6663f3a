package replay

import (
	"errors"
	"fmt"
	"strings"

	pb "github.com/engined/engined/proto/enginepb"
)

// ErrCanceled is in the tree of every error that a cancelled call returns.
var ErrCanceled = errors.New("cancelled")

// ErrRefused is in the tree of the outcome of a call that was refused before
// anything was sent.
var ErrRefused = errors.New("refused before it was sent")

// ErrClosed says that an input came for a run whose code has ended, or that has
// been put away.
var ErrClosed = errors.New("the run folds nothing any more: its code has ended or it was put away")

// Canceled is what calls under a cancelled scope return. errors.Is finds
// ErrCanceled in it.
type Canceled struct {
	// Reason is the one given with the request, or empty.
	Reason string
}

// Error is "cancelled" with the reason.
func (e *Canceled) Error() string {
	if e.Reason == "" {
		return ErrCanceled.Error()
	}
	return ErrCanceled.Error() + ": " + e.Reason
}

// Unwrap returns ErrCanceled.
func (e *Canceled) Unwrap() error { return ErrCanceled }

// opShown is how much of an operation's name a Refused tells.
const opShown = 60

// Refused says that an activity was not asked for, because it cannot be: its
// input has no encoding or is too large, its function has no name, an option is
// wrong. A timer or a compensation is refused in coroutines that are nested too
// deep. errors.Is finds ErrRefused and errors.As the reason in it.
type Refused struct {
	// Activity is empty for what is none, and for one without a name.
	Activity string
	Op       string
	Err      error
}

// Error tells the reason.
func (e *Refused) Error() string {
	what := "the operation"
	if e.Activity != "" {
		what = "the activity " + e.Activity
	}
	op := e.Op
	if len(op) > opShown {
		op = op[:opShown] + "…"
	}
	return fmt.Sprintf("%s (%s) was refused before it was sent: %v", what, op, e.Err)
}

// Unwrap returns the reason and ErrRefused.
func (e *Refused) Unwrap() []error { return []error{e.Err, ErrRefused} }

// Panic says that workflow code panicked.
type Panic struct {
	// Coroutine is the path of the one that did; empty for the root.
	Coroutine string
	Value     any
	Stack     string
}

// Error tells the value; the stack is apart.
func (e *Panic) Error() string {
	return fmt.Sprintf("the workflow code panicked in %s: %v", coroutineName(e.Coroutine), e.Value)
}

// Unwrap returns the value, if it is an error.
func (e *Panic) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Exited says that workflow code ended its goroutine by runtime.Goexit, as the
// FailNow of a test does.
type Exited struct {
	Coroutine string
	Stack     string
}

// Error says where.
func (e *Exited) Error() string {
	return "the workflow code called runtime.Goexit (as t.FailNow does) in " + coroutineName(e.Coroutine)
}

// Misuse says that workflow code called the SDK where it must not: from a
// goroutine of its own, with another coroutine's context, after the run.
type Misuse struct {
	// Call is the place of the call, "shop.go:42".
	Call  string
	Why   string
	Stack string
}

// Error tells what is wrong and what to do.
func (e *Misuse) Error() string {
	if e.Call == "" {
		return "a call of the workflow SDK " + e.Why
	}
	return "the call of the workflow SDK at " + e.Call + " " + e.Why
}

// Undecodable says that the input of the workflow does not fit its function.
type Undecodable struct{ Err error }

// Error tells the decoder's reason.
func (e *Undecodable) Error() string {
	return "the workflow's input cannot be decoded: " + e.Err.Error()
}

// Unwrap returns the decoder's error.
func (e *Undecodable) Unwrap() error { return e.Err }

// Unencodable says that the result of the workflow cannot be recorded.
type Unencodable struct{ Err error }

// Error tells the encoder's reason.
func (e *Unencodable) Error() string {
	return "the workflow's result cannot be recorded: " + e.Err.Error()
}

// Unwrap returns the encoder's error.
func (e *Unencodable) Unwrap() error { return e.Err }

// Newer says that the run lives by a newer version of this runtime.
type Newer struct{ Have, Known int32 }

// Error says what to do.
func (e *Newer) Error() string {
	return fmt.Sprintf("the run lives by version %d of the folding runtime, this build knows versions up to %d: use a newer build of the worker", e.Have, e.Known)
}

// Unsupported says that the history has an input of a kind that this build does
// not fold.
type Unsupported struct{ Event *pb.Event }

// Error names the event.
func (e *Unsupported) Error() string {
	return "this build cannot fold " + describe(e.Event) + ": use a newer build of the worker"
}

// BadHistory says that what was handed in is no history, or no input that can
// come next. Workflow code is not at fault.
type BadHistory struct{ Why string }

// Error tells what is wrong.
func (e *BadHistory) Error() string { return "the history cannot be folded: " + e.Why }

// Unclean says that coroutines did not end as they should when their run was put
// away.
type Unclean struct {
	// Swallowed were ended by force: their code recovers the panic by which
	// calls unwind it, time and again.
	Swallowed []string
	// Left stay in memory: only runtime.Goexit ends them, and Config.Spawn,
	// which it needs, was not given.
	Left []string
}

// Error names the coroutines.
func (e *Unclean) Error() string {
	var parts []string
	if len(e.Swallowed) > 0 {
		parts = append(parts, "workflow code recovers the panic that ends it, in "+coroutineNames(e.Swallowed)+
			": let recovered values through that are not your own")
	}
	if len(e.Left) > 0 {
		parts = append(parts, "workflow code stays in memory, in "+coroutineNames(e.Left))
	}
	return strings.Join(parts, "; ")
}

func coroutineNames(paths []string) string {
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = coroutineName(path)
	}
	return strings.Join(names, ", ")
}

// FaultKind is the kind of fault by which a worker reports an error of Load or
// Fold.
func FaultKind(err error) pb.FaultKind {
	var (
		mismatch    *Mismatch
		newer       *Newer
		unsupported *Unsupported
		undecodable *Undecodable
		unencodable *Unencodable
	)
	switch {
	case errors.As(err, &mismatch), errors.As(err, &newer), errors.As(err, &unsupported):
		return pb.FaultKind_FAULT_KIND_MISMATCH
	case errors.As(err, &undecodable):
		return pb.FaultKind_FAULT_KIND_UNDECODABLE
	case errors.As(err, &unencodable):
		return pb.FaultKind_FAULT_KIND_REFUSED
	default:
		return pb.FaultKind_FAULT_KIND_PANIC
	}
}

// Stack returns the stack that an error of Load or Fold carries, or "".
func Stack(err error) string {
	var (
		panicked *Panic
		exited   *Exited
		misuse   *Misuse
	)
	switch {
	case errors.As(err, &panicked):
		return panicked.Stack
	case errors.As(err, &exited):
		return exited.Stack
	case errors.As(err, &misuse):
		return misuse.Stack
	default:
		return ""
	}
}

func coroutineName(path string) string {
	if path == "" {
		return "the root coroutine"
	}
	return "coroutine " + path
}
