// Package match decides which worker gets what: runs to fold and activities to
// run. It is a pure data structure: no lock, no clock, no goroutine, no map
// order; the same calls give the same answers.
//
// It owns who is connected, what each worker can do, how many slots and how
// many unanswered bytes each has, and who waits for what. It must not know what
// a run is, how long anything takes, or how a message reaches a worker.
//
// Whoever asks gets an answer at once: a worker, or a place in the queue of what
// they need. What is given to those who wait comes as Offers from the calls
// that make room: Connect, Free, Unassign, Unfolded. Within one need (namespace,
// task queue, type) it is first come, first served, and nobody who comes later
// overtakes those who wait.
package match

import (
	"slices"
)

// MaxUnfoldedBytes bounds the inputs pushed to one worker and not answered.
// Above it the worker gets no new run: an outbox that nobody reads is memory.
const MaxUnfoldedBytes = 8 << 20

// maxOffered bounds the runs offered to one worker of which nothing has been
// pushed yet: what they will push is not known, and not counted, before that.
const maxOffered = 64

// Run and Delivery name what is given out.
type (
	// RunKey is a run's number.
	RunKey int64
	// DeliveryKey names one delivery of an activity; see machine.DeliveryKey.
	DeliveryKey struct {
		Run      int64
		Op       string
		Role     int32
		Delivery int32
	}
)

// Need is what is asked of a worker.
type Need struct {
	Namespace string
	Queue     string
	Type      string
	// Prefer names the worker to take if it can.
	Prefer string
	// Excluded lists builds that must not get a run.
	Excluded []string
}

// Worker describes a worker when it connects.
type Worker struct {
	ID            string
	Namespace     string
	Queue         string
	Build         string
	WorkflowTypes []string
	ActivityTypes []string
	// Slots bounds the activities that it runs at once.
	Slots int
}

// Offer gives a worker to someone who waited. Delivery is set for a slot, else
// it is a run.
type Offer struct {
	Worker   string
	Run      RunKey
	Slot     bool
	Delivery DeliveryKey
}

// Matcher is the state. The zero value is not usable; see New.
type Matcher struct {
	workers  map[string]*worker
	order    []*worker // as they connected
	runs     map[RunKey]*claim[RunKey]
	slots    map[DeliveryKey]*claim[DeliveryKey]
	runWait  map[pool]*line[RunKey]
	slotWait map[pool]*line[DeliveryKey]
}

// pool is what workers are looked up by.
type pool struct{ namespace, queue, typ string }

type worker struct {
	Worker
	workflows map[string]bool
	activity  map[string]bool
	used      int
	runs      int
	unfolded  int64
	offered   int // runs, see maxOffered
	turn      int // whose turn it is among ActivityTypes
	draining  bool
}

// claim is one run or delivery at the desk: with a worker, or waiting.
type claim[K comparable] struct {
	key    K
	need   Need
	worker *worker // nil while waiting
	// offered: it waited, and was given the worker by an offer.
	offered bool
}

// New returns a matcher without workers.
func New() *Matcher {
	return &Matcher{
		workers: map[string]*worker{},
		runs:    map[RunKey]*claim[RunKey]{}, slots: map[DeliveryKey]*claim[DeliveryKey]{},
		runWait: map[pool]*line[RunKey]{}, slotWait: map[pool]*line[DeliveryKey]{},
	}
}

// Connect adds a worker; one with the same id is replaced.
func (m *Matcher) Connect(w Worker) []Offer {
	m.Disconnect(w.ID)
	n := &worker{Worker: w, workflows: set(w.WorkflowTypes), activity: set(w.ActivityTypes)}
	m.workers[w.ID] = n
	m.order = append(m.order, n)
	return append(m.offerRuns(n), m.offerSlots(n)...)
}

// Disconnect removes the worker with all that it had.
func (m *Matcher) Disconnect(id string) {
	w := m.workers[id]
	if w == nil {
		return
	}
	delete(m.workers, id)
	m.order = slices.DeleteFunc(m.order, func(x *worker) bool { return x == w })
	for k, c := range m.runs {
		if c.worker == w {
			delete(m.runs, k)
		}
	}
	for k, c := range m.slots {
		if c.worker == w {
			delete(m.slots, k)
		}
	}
}

// Drain gives the worker nothing new from now on.
func (m *Matcher) Drain(id string) {
	if w := m.workers[id]; w != nil {
		w.draining = true
	}
}

// Connected says whether the worker is here.
func (m *Matcher) Connected(id string) bool { return m.workers[id] != nil }

// Assign finds a worker for a run's code, or lets the run wait.
func (m *Matcher) Assign(run RunKey, n Need) (string, bool) {
	m.leaveRun(run)
	c := &claim[RunKey]{key: run, need: n}
	m.runs[run] = c
	p := pool{n.Namespace, n.Queue, n.Type}
	if w := m.pickForRun(n); w != nil {
		m.giveRun(c, w)
		return w.ID, true
	}
	lineOf(m.runWait, p).push(c)
	return "", false
}

// Unassign ends a run's assignment or its wait.
func (m *Matcher) Unassign(run RunKey) []Offer {
	w, full := m.leaveRun(run)
	if !full {
		return nil // any number of runs fits: this one took nobody's place
	}
	return m.offerRuns(w)
}

// leaveRun returns the worker that had the run, and whether others wait for it
// because so many were offered to it.
func (m *Matcher) leaveRun(run RunKey) (w *worker, full bool) {
	c := m.runs[run]
	if c == nil {
		return nil, false
	}
	delete(m.runs, run)
	if c.worker == nil {
		lineOf(m.runWait, poolOf(c.need)).remove(c)
		return nil, false
	}
	w = c.worker
	w.runs--
	if c.offered {
		full = w.taken()
	}
	return w, full
}

// taken notes that an offered run was taken up or left, and says whether more
// could not be offered because of it.
func (w *worker) taken() (full bool) {
	full = w.offered >= maxOffered
	w.offered = max(w.offered-1, 0)
	return full
}

// Slot takes a slot for a delivery, or lets it wait.
func (m *Matcher) Slot(d DeliveryKey, n Need) (string, bool) {
	m.leaveSlot(d)
	c := &claim[DeliveryKey]{key: d, need: n}
	m.slots[d] = c
	l := lineOf(m.slotWait, poolOf(n))
	if l.empty() {
		if w := m.pickForSlot(n); w != nil {
			c.worker = w
			w.used++
			return w.ID, true
		}
	}
	l.push(c)
	return "", false
}

// Hold takes a slot for a delivery that the worker has already, also beyond its
// number; false if the worker is not here.
func (m *Matcher) Hold(d DeliveryKey, id string) bool {
	w := m.workers[id]
	if w == nil {
		return false
	}
	m.leaveSlot(d)
	m.slots[d] = &claim[DeliveryKey]{key: d, worker: w}
	w.used++
	return true
}

// Free ends a delivery's slot or its wait. A second call does nothing.
func (m *Matcher) Free(d DeliveryKey) []Offer {
	w := m.leaveSlot(d)
	if w == nil {
		return nil
	}
	return m.offerSlots(w)
}

// Answered ends a delivery's slot because the worker has answered: only if it is
// that worker's. What waits under the same name is not touched.
func (m *Matcher) Answered(d DeliveryKey, id string) []Offer {
	if c := m.slots[d]; c == nil || c.worker == nil || c.worker.ID != id {
		return nil
	}
	return m.Free(d)
}

func (m *Matcher) leaveSlot(d DeliveryKey) *worker {
	c := m.slots[d]
	if c == nil {
		return nil
	}
	delete(m.slots, d)
	if c.worker == nil {
		lineOf(m.slotWait, poolOf(c.need)).remove(c)
		return nil
	}
	c.worker.used--
	return c.worker
}

// Unfolded counts bytes of inputs that a worker was given and has not answered:
// more of them, or (negative) fewer.
func (m *Matcher) Unfolded(id string, bytes int64) []Offer {
	w := m.workers[id]
	if w == nil {
		return nil
	}
	full := w.unfolded >= MaxUnfoldedBytes
	if bytes > 0 {
		full = w.taken() || full
	}
	// Never below zero: what is answered may have been given to the stream that
	// the worker had before.
	w.unfolded = max(w.unfolded+bytes, 0)
	if !full || w.unfolded >= MaxUnfoldedBytes {
		return nil
	}
	return m.offerRuns(w)
}

// Reset forgets all that the runs have at the desk, connected workers apart:
// whoever drives them starts over.
func (m *Matcher) Reset(mine func(run int64) bool) []Offer {
	for k := range m.runs {
		if mine(int64(k)) {
			m.leaveRun(k)
		}
	}
	for k := range m.slots {
		if mine(k.Run) {
			m.leaveSlot(k)
		}
	}
	var offers []Offer
	for _, w := range m.order {
		offers = append(append(offers, m.offerRuns(w)...), m.offerSlots(w)...)
	}
	return offers
}

// Usage tells how busy a worker is: slots in use and runs held.
func (m *Matcher) Usage(id string) (slots, runs int) {
	if w := m.workers[id]; w != nil {
		return w.used, w.runs
	}
	return 0, 0
}
