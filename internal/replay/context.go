package replay

import (
	"math/rand/v2"
	"runtime/debug"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

// Context is where a call comes from: a coroutine, and the scope that can
// cancel it. It is valid on that coroutine alone, while an input is folded.
type Context struct {
	co    *Coroutine
	scope *Scope
}

// enter checks that the call may be made, and tells where it comes from. Code
// that asks the engine for something, or waits, comes through here. A call from
// a stray goroutine gets an error, since a panic there would end the process, and
// the context's run is held for it. One from another run's coroutine is that run's
// fault: it panics there.
func (c Context) enter() (*Coroutine, string, error) {
	if c.co == nil {
		panic(&Misuse{Why: "has a context that belongs to no workflow: use the one that the function was given", Stack: string(debug.Stack())})
	}
	from := callSite()
	its := from.origin == coroutine && from.of == c.co.run.tag
	if c.co.run.current.Load() != c.co || !its && from.origin != unknown {
		return nil, from.source, c.misused(from)
	}
	if c.co.dying {
		c.co.unwound()
	}
	if c.co.peeking {
		panic(c.blame(from.source, "stands in the condition of an Await, which may only look"))
	}
	return c.co, from.source, nil
}

// look is enter for calls that only read, which a condition may make, too. It
// does not look at the stack when nothing else is wrong.
func (c Context) look() (*Coroutine, error) {
	if c.co == nil || c.co.run.current.Load() != c.co || c.co.dying {
		co, _, err := c.enter()
		return co, err
	}
	return c.co, nil
}

// misused says what is wrong with a call from where none may come, and sees to
// it that whoever made it is held. A panic does that for a coroutine; a fault of
// another run is noted nowhere else, since that run is not at hand.
func (c Context) misused(from caller) error {
	if from.origin == unknown {
		from.origin, from.of = deepOrigin()
	}
	now := c.co.run.current.Load()
	switch {
	case from.origin == stray:
		return c.blame(from.source, "comes from a goroutine that is none of the run's: workflow code starts others with workflow.Go, and leaves effects to activities")
	case from.of != c.co.run.tag || now == nil:
		panic(misuseAt(from.source, "has the context of another run: use the one that the function was given"))
	default:
		panic(c.blame(from.source, "uses the context of "+coroutineName(c.co.path)+" in "+coroutineName(now.path)+
			": use the one that the function of workflow.Go was given"))
	}
}

func misuseAt(source, why string) *Misuse {
	return &Misuse{Call: source, Why: why, Stack: string(debug.Stack())}
}

// own checks that an operation is of the caller's run.
func (c Context) own(f *Future, source string) {
	if f.run != nil && f.run != c.co.run {
		panic(c.blame(source, "waits for a future of another run: what another run does is for that run alone"))
	}
}

func (c Context) blame(source, why string) *Misuse {
	m := misuseAt(source, why)
	c.co.run.misuse.CompareAndSwap(nil, m)
	return m
}

// The calls that follow have no error to return. To a stray goroutine they return
// what is nothing but harms nobody; the run is held for it.

// Now is the time of the input being folded, in UTC. It never goes back.
func (c Context) Now() time.Time {
	co, err := c.look()
	if err != nil {
		return time.Time{}
	}
	return co.run.time()
}

// Started is the first event of the run, and its time. It must not be changed.
func (c Context) Started() (*pb.WorkflowStarted, time.Time) {
	co, err := c.look()
	if err != nil {
		return &pb.WorkflowStarted{}, time.Time{}
	}
	r := co.run
	return r.started, time.Unix(0, r.startedAt).UTC()
}

// Rand is the coroutine's random source; see random.go.
func (c Context) Rand() *rand.Rand {
	co, err := c.look()
	if err != nil {
		return rand.New(rand.NewPCG(0, 0))
	}
	return co.random()
}

// NewID returns a new id; see random.go.
func (c Context) NewID() string {
	co, err := c.look()
	if err != nil {
		return ""
	}
	return co.newID()
}

// ActivityName is the name under which the activity of a function is stored.
func (c Context) ActivityName(function string) string {
	if c.co == nil || c.co.run.cfg.ActivityName == nil {
		return function // the call that it is for will be refused if it must be
	}
	return c.co.run.cfg.ActivityName(function)
}

// Go starts a coroutine. It runs when those ready before it have run.
func (c Context) Go(fn func(Context)) {
	co, _, err := c.enter()
	if err != nil {
		return // the run is held for it
	}
	co.children++
	co.run.spawn(co.below(co.children), c.scope, fn)
}

// WithCancel returns a context of its own scope below c's, and what cancels it.
// That may be called on any coroutine of the run, more than once, and does
// nothing when the run is not being folded.
func (c Context) WithCancel() (Context, func(reason string)) {
	co, _, err := c.enter()
	if err != nil {
		return c, func(string) {}
	}
	s := c.scope.child()
	return Context{co: co, scope: s}, func(reason string) {
		r := s.run
		now := r.current.Load()
		if now == nil || now.dying {
			return
		}
		if _, source, err := (Context{co: now, scope: s}).enter(); err == nil {
			s.cancel(&Canceled{Reason: reason}, source)
		}
	}
}

// Detached returns a context that no cancel reaches.
func (c Context) Detached() Context {
	if c.co == nil {
		return c
	}
	return Context{co: c.co, scope: c.co.run.detached}
}

// Canceled is the *Canceled of a scope that is cancelled, or nil.
func (c Context) Canceled() error {
	if _, err := c.look(); err != nil {
		return err
	}
	return c.canceled()
}

// canceled is nil, and not a nil *Canceled, when there is no cancel.
func (c Context) canceled() error {
	if c.scope.canceled == nil {
		return nil
	}
	return c.scope.canceled
}

// Wait waits until the operation is done. What is done is not waited for; only
// a call that would wait returns the scope's cancel.
func (c Context) Wait(f *Future) error {
	if co, err := c.look(); err == nil && f.run == co.run && f.done {
		return nil
	}
	co, source, err := c.enter()
	if err != nil {
		return err
	}
	c.own(f, source)
	s := c.scope
	if f.keep {
		s = nil
	}
	for !f.done {
		if s != nil && s.canceled != nil {
			return s.canceled
		}
		co.waits = source
		co.watch(f)
		co.park(s)
	}
	return nil
}

// Select waits until one of the operations is done and returns its index, the
// lowest if there are more. Under a cancelled scope, only a fact counts: what
// ended with the scope tells nothing that the cancel does not. block says whether
// to wait at all: without it the index is -1 when none is done.
func (c Context) Select(futures []*Future, block bool) (int, error) {
	co, source, err := c.enter()
	if err != nil {
		return -1, err
	}
	for _, f := range futures {
		c.own(f, source)
	}
	for {
		for i, f := range futures {
			if f.done && (f.err == nil || c.scope.canceled == nil) {
				return i, nil
			}
		}
		if !block {
			return -1, nil
		}
		if err := c.canceled(); err != nil {
			return -1, err
		}
		co.waits = source
		co.watch(futures...)
		co.park(c.scope)
	}
}

// Await waits until the condition holds. It is asked after everything that was
// ready has run.
func (c Context) Await(cond func() bool) error {
	co, source, err := c.enter()
	if err != nil {
		return err
	}
	// Also when the condition panics: a coroutine must be in no list when its
	// code goes on.
	defer func() {
		co.inAwait.unlink()
		co.inScope.unlink()
	}()
	for !co.peek(cond) {
		if err := c.canceled(); err != nil {
			return err
		}
		co.waits = source
		if co.inAwait.in == nil {
			co.run.awaiting.push(&co.inAwait, co)
		}
		co.park(c.scope)
	}
	co.run.progress = true
	return nil
}

func (co *Coroutine) peek(cond func() bool) bool {
	co.peeking = true
	defer func() { co.peeking = false }()
	return cond()
}
