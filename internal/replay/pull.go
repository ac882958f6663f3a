package replay

import "iter"

// switcher moves control into a coroutine and back. It is all that the machine
// knows of how a coroutine is made.
type switcher interface {
	// resume runs the coroutine until it parks (true) or is over (false).
	resume() bool
	// end ends a coroutine that never ran, or lets one that is on its way
	// out by runtime.Goexit go there; then it ends the caller's goroutine, too.
	end()
}

// pull is a coroutine made of iter.Pull: a switch costs a third of one over
// channels, and a parked one half the memory.
type pull struct {
	next func() (struct{}, bool)
	stop func()
}

func newPull(main func(yield func(struct{}) bool)) *pull {
	next, stop := iter.Pull(main)
	return &pull{next: next, stop: stop}
}

func (p *pull) resume() bool {
	_, alive := p.next()
	return alive
}

func (p *pull) end() { p.stop() }
