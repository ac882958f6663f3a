// Package svc runs the goroutines of the server and of the worker. It is the
// only place of theirs with a go statement.
//
// It owns what must hold for every one of them: a panic is an error with its
// stack, runtime.Goexit is an error too, the first error ends the group by its
// cause, and Wait returns when nothing of the group runs any more. It must not
// know what the goroutines do.
package svc

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// PanicError is a panic of the goroutine called Name.
type PanicError struct {
	Name  string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s: panic: %v", e.Name, e.Value) }

// Unwrap returns the value panicked with, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ExitError says that runtime.Goexit ended the goroutine called Name
// (testing.T.FailNow does that).
type ExitError struct{ Name string }

func (e *ExitError) Error() string {
	return e.Name + ": the code called runtime.Goexit (testing's FailNow and Fatal do)"
}

// Do calls work and then end, exactly once, with what became of it: its
// error, a *PanicError or an *ExitError. Goexit goes on unwinding the goroutine
// after end, so Do does not return then.
func Do(name string, work func() error, end func(error)) {
	var err error
	returned := false
	defer func() {
		if !returned {
			// A nil value is Goexit: panic(nil) has a value since Go 1.21.
			if v := recover(); v != nil {
				err = &PanicError{Name: name, Value: v, Stack: debug.Stack()}
			} else {
				err = &ExitError{Name: name}
			}
		}
		end(err)
	}()
	err = work()
	returned = true
}

// Group is a set of goroutines that end together. Make it with New.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	spawn  Spawn

	mu      sync.Mutex
	idle    chan struct{} // closed when running falls to zero; nil if nobody waits
	running int
	err     error // the first
}

// Spawn begins a goroutine, or what a simulator takes for one.
type Spawn func(name string, work func())

// Goroutine is the Spawn of production.
func Goroutine(_ string, work func()) { go work() }

// New returns a group whose goroutines get a context derived from ctx.
func New(ctx context.Context) *Group {
	return NewOn(ctx, Goroutine)
}

// NewOn is New with goroutines begun by spawn.
func NewOn(ctx context.Context, spawn Spawn) *Group {
	g := &Group{spawn: spawn}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// Context is the context of the goroutines: done when one has failed or Stop
// was called; context.Cause says why.
func (g *Group) Context() context.Context { return g.ctx }

// Go runs work on a goroutine of its own. Its error, or its panic or Goexit
// turned into one, ends the group if it is the first. Go may be called at any
// time, also by a goroutine of the group; after the group's end work still
// runs, with a context that is done.
func (g *Group) Go(name string, work func(ctx context.Context) error) {
	g.Run(name, work, func(err error) error { return err })
}

// Run is Go for work whose end is handled where it was started, such as user
// code: end is called, exactly once and on the same goroutine, with what became
// of work, and what it returns in its place is all that the group gets to know.
func (g *Group) Run(name string, work func(ctx context.Context) error, end func(error) error) {
	g.mu.Lock()
	g.running++
	g.mu.Unlock()
	g.spawn(name, func() {
		Do(name, func() error { return work(g.ctx) }, func(err error) { g.ended(end(err)) })
	})
}

func (g *Group) ended(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && g.err == nil {
		g.err = err
		g.cancel(err)
	}
	if g.running--; g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Stop ends the group: its context is done with the cause given. It does not
// wait. An error that a goroutine returns afterwards is still reported.
func (g *Group) Stop(cause error) { g.cancel(cause) }

// Wait returns when no goroutine of the group runs, with the first error that
// one of them returned. The group's context is done then.
func (g *Group) Wait() error {
	// A background context never ends, so what is left is the group's error.
	return g.WaitFor(context.WithoutCancel(g.ctx))
}

// WaitFor is Wait until ctx ends. It returns ctx's cause if goroutines of the
// group still run then; the group goes on.
func (g *Group) WaitFor(ctx context.Context) error {
	for {
		idle := g.Idle()
		select {
		case <-idle:
		default:
			select {
			case <-idle:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		g.mu.Lock()
		done, err := g.running == 0, g.err
		g.mu.Unlock()
		if done {
			g.cancel(nil)
			return err
		}
	}
}

// Idle returns a channel that is closed when, or because, nothing of the group
// runs.
func (g *Group) Idle() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == 0 {
		return closed
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	return g.idle
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
