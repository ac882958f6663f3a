package replay

// Scope is a part of a run that is cancelled as a whole: a node of a tree whose
// root is cancelled by the engine's CancelRequested. Beside that tree stands one
// scope that no cancel reaches, for clean-up.
type Scope struct {
	run      *Run
	children list[*Scope]
	inParent link[*Scope]

	canceled *Canceled
	ops      list[*Future]    // open activities and timers, oldest first
	waiting  list[*Coroutine] // those that wait under this very scope
}

// child makes a scope that ends with s at the latest.
func (s *Scope) child() *Scope {
	c := &Scope{run: s.run, canceled: s.canceled}
	if s.canceled == nil {
		s.children.push(&c.inParent, c)
	}
	return c
}

// cancel ends the operations of the scope, oldest first, wakes those who wait
// under it, and does the same to the scopes below, oldest first.
func (s *Scope) cancel(why *Canceled, source string) {
	if s.canceled != nil {
		return
	}
	s.canceled = why
	s.inParent.unlink()
	for s.ops.first != nil {
		s.run.cancelOp(s.ops.first.of, why, source)
	}
	for s.waiting.first != nil {
		s.run.wake(s.waiting.first.of)
	}
	for s.children.first != nil {
		s.children.first.of.cancel(why, source)
	}
}
