package replay

import (
	"iter"
	"time"
)

// switcher moves control into a coroutine and back. It is all that the machine
// knows of how a coroutine is made.
type switcher interface {
	// resume runs the coroutine until it parks (true) or is over (false).
	resume() bool
	// discard ends a coroutine that never ran.
	discard()
	// destroy ends a parked coroutine whose way out is runtime.Goexit. It
	// returns when the coroutine is gone.
	destroy()
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

func (p *pull) discard() { p.stop() }

// destroy lets the coroutine's Goexit, which iter.Pull hands on to whoever
// called stop, end a goroutine made for that.
func (p *pull) destroy() {
	gone := make(chan struct{})
	time.AfterFunc(0, func() {
		defer close(gone)
		p.stop()
	})
	<-gone
}
