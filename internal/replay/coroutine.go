package replay

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strconv"
)

// swallowMax is how many calls unwind a coroutine whose code recovers their
// panic, before it is ended by force.
const swallowMax = 100

// unwind is the value of the panic by which calls end a coroutine of a run that
// is put away.
type unwind struct{}

func (unwind) Error() string {
	return "engined: this run is being put away and its code unwound; nothing is wrong, let this panic through"
}

// Coroutine is one strand of workflow code.
type Coroutine struct {
	run  *Run
	path string
	fn   func(Context)
	base *Scope // of the context that fn gets
	sw   switcher
	// yield parks the coroutine. It may be called by this coroutine alone.
	yield func(struct{}) bool

	ops, children, maps int32
	ids                 uint64
	rng                 *rand.Rand

	ran      bool
	dying    bool // it is being unwound
	exited   bool // it is parked on its way out by runtime.Goexit
	exiting  bool // its next call is runtime.Goexit
	peeking  bool // the condition of an Await is being asked
	swallows int

	// waits is the place of the call in which it waits.
	waits   string
	links   []link[*Coroutine] // in the lists of what it waits for
	inScope link[*Coroutine]
	inAwait link[*Coroutine]
	inAlive link[*Coroutine]
}

// spawn makes a coroutine that runs when those ready before it have run.
func (r *Run) spawn(path string, s *Scope, fn func(Context)) {
	co := &Coroutine{run: r, path: path, fn: fn, base: s}
	co.sw = newPull(co.main)
	r.alive.push(&co.inAlive, co)
	r.ready.push(co)
}

// main is the lowest frame of a coroutine. What comes out of user code ends
// here: iter.Pull would hand a panic on without its stack, and Goexit to whoever
// resumes the coroutine.
func (co *Coroutine) main(yield func(struct{}) bool) {
	co.yield = yield
	returned := false
	defer func() {
		v := recover()
		switch {
		case co.dying && v != nil: // the unwinding, or what user code made of it
		case v != nil:
			co.run.caught(co, v)
		case !returned:
			// Goexit is under way and cannot be stopped, but it can be parked
			// until Close lets it go on where it harms nobody.
			co.exited = true
			if !co.dying {
				co.run.fail(&Exited{Coroutine: co.path, Stack: string(debug.Stack())})
			}
			yield(struct{}{})
		}
	}()
	co.code()
	returned = true
}

func (r *Run) caught(co *Coroutine, v any) {
	if m, ok := v.(*Misuse); ok {
		r.fail(m)
		return
	}
	r.fail(&Panic{Coroutine: co.path, Value: v, Stack: string(debug.Stack())})
}

// resume gives control to the coroutine until it waits or ends.
func (r *Run) resume(co *Coroutine) {
	r.current.Store(co)
	co.ran = true
	alive := co.sw.resume()
	r.current.Store(nil)
	if !alive {
		co.inAlive.unlink()
	}
}

// watch notes that the coroutine waits for these.
func (co *Coroutine) watch(futures ...*Future) {
	if cap(co.links) < len(futures) {
		co.links = make([]link[*Coroutine], len(futures))
	}
	co.links = co.links[:len(futures)]
	for i, f := range futures {
		f.waiters.push(&co.links[i], co)
	}
}

// park waits for a wake-up: by what is watched, or by a cancel of the scope if
// there is one.
func (co *Coroutine) park(s *Scope) {
	if s != nil && co.inScope.in == nil {
		s.waiting.push(&co.inScope, co)
	}
	more := co.yield(struct{}{})
	if co.dying || !more {
		co.dying = true
		panic(unwind{})
	}
}

// wake makes a waiting coroutine ready; it has to see for itself what happened.
func (r *Run) wake(co *Coroutine) {
	for i := range co.links {
		co.links[i].unlink()
	}
	co.inScope.unlink()
	co.inAwait.unlink()
	r.ready.push(co)
}

// ask lets every coroutine that waits in Await ask its condition, in the order
// in which they wait, and says whether one went on. The condition is asked on
// its own coroutine, where everything that user code may do is caught.
func (r *Run) ask() bool {
	r.progress = false
	for k := r.awaiting.first; k != nil && k.in == &r.awaiting && r.err == nil && !r.closed; {
		co := k.of
		k = k.next
		r.resume(co)
	}
	return r.progress
}

// unwound is called by every call of the SDK on a dying coroutine. Code that
// recovers the panic and goes on calling meets it again, and in the end Goexit,
// which nothing recovers.
func (co *Coroutine) unwound() {
	if co.exiting {
		runtime.Goexit()
	}
	co.swallows++
	if co.swallows > swallowMax {
		co.exiting = true
		co.yield(struct{}{}) // until Close ends it
		runtime.Goexit()
	}
	panic(unwind{})
}

// queue holds the ready coroutines, first come, first run.
type queue struct {
	items []*Coroutine
	head  int
}

func (q *queue) push(co *Coroutine) { q.items = append(q.items, co) }

func (q *queue) pop() *Coroutine {
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		return nil
	}
	co := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	return co
}

// nextOp takes the coroutine's next running number.
func (co *Coroutine) nextOp() string {
	co.ops++
	return opName(co.path, co.ops)
}

func opName(path string, n int32) string {
	var buf [32]byte
	b := append(buf[:0], path...)
	b = append(b, '#')
	return string(strconv.AppendInt(b, int64(n), 10))
}

// below is the path of something numbered inside the coroutine.
func (co *Coroutine) below(n int32) string {
	s := strconv.Itoa(int(n))
	if co.path == "" {
		return s
	}
	return co.path + "." + s
}
