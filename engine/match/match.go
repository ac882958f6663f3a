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
// overtakes those who wait. Only a suspect is overtaken, while it waits for a
// worker without another suspect: no worker has two, so that one which dies tells
// on whom it was.
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
	// Suspect: the worker must have no other suspect.
	Suspect bool
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
	// suspectWait are the suspects' lines, which others may overtake; what waits
	// for slots is numbered, so that both lines are one where they need not.
	suspectWait map[pool]*line[DeliveryKey]
	ticket      int64
}

// pool is what workers are looked up by.
type pool struct{ namespace, queue, typ string }

type worker struct {
	Worker
	workflows map[string]bool
	activity  map[string]bool
	used      int
	runs      int
	suspects  int // among both
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
	ticket int64
	// offered: it waited, and was given the worker by an offer.
	offered bool
}

// New returns a matcher without workers.
func New() *Matcher {
	return &Matcher{
		workers: map[string]*worker{},
		runs:    map[RunKey]*claim[RunKey]{}, slots: map[DeliveryKey]*claim[DeliveryKey]{},
		runWait: map[pool]*line[RunKey]{}, slotWait: map[pool]*line[DeliveryKey]{}, suspectWait: map[pool]*line[DeliveryKey]{},
	}
}

// Connect adds a worker; one with the same id is replaced.
func (m *Matcher) Connect(w Worker) []Offer {
	m.Disconnect(w.ID)
	n := &worker{Worker: w, workflows: set(w.WorkflowTypes), activity: set(w.ActivityTypes)}
	m.workers[w.ID] = n
	m.order = append(m.order, n)
	return m.offerAll(n)
}

// Disconnect removes the worker with all that it had, and tells how many suspects
// were among that.
func (m *Matcher) Disconnect(id string) (suspects int) {
	w := m.workers[id]
	if w == nil {
		return 0
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
	return w.suspects
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
	w, room := m.leaveRun(run)
	if !room {
		return nil // any number of runs fits: this one took nobody's place
	}
	return m.offerAll(w)
}

// offerAll gives the worker to whoever waits for one like it.
func (m *Matcher) offerAll(w *worker) []Offer { return append(m.offerRuns(w), m.offerSlots(w)...) }

// leaveRun returns the worker that had the run, and whether others may wait for
// it because so many were offered to it, or because the run was a suspect.
func (m *Matcher) leaveRun(run RunKey) (w *worker, room bool) {
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
	room = w.clear(&c.need)
	if c.offered {
		room = w.taken() || room
	}
	return w, room
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
	m.ticket++
	c := &claim[DeliveryKey]{key: d, need: n, ticket: m.ticket}
	m.slots[d] = c
	// Suspects that wait do so because whoever has a slot has another: they are in
	// nobody's way.
	if lineOf(m.slotWait, poolOf(n)).empty() {
		if w := m.pickForSlot(n); w != nil {
			m.giveSlot(c, w)
			return w.ID, true
		}
	}
	m.slotLine(n).push(c)
	return "", false
}

func (m *Matcher) slotLine(n Need) *line[DeliveryKey] {
	if n.Suspect {
		return lineOf(m.suspectWait, poolOf(n))
	}
	return lineOf(m.slotWait, poolOf(n))
}

// Hold takes a slot for a delivery that the worker has already, or was offered,
// also beyond its number; false if the worker is not here.
func (m *Matcher) Hold(d DeliveryKey, id string, suspect bool) bool {
	w := m.workers[id]
	if w == nil {
		return false
	}
	if c := m.slots[d]; c != nil && c.worker == w {
		return true
	}
	m.leaveSlot(d)
	c := &claim[DeliveryKey]{key: d, need: Need{Suspect: suspect}}
	m.slots[d] = c
	m.giveSlot(c, w)
	return true
}

// Free ends a delivery's slot or its wait. A second call does nothing.
func (m *Matcher) Free(d DeliveryKey) []Offer {
	w, last := m.leaveSlot(d)
	switch {
	case w == nil:
		return nil
	case last:
		return m.offerAll(w)
	default:
		return m.offerSlots(w)
	}
}

// Answered ends a delivery's slot because the worker has answered: only if it is
// that worker's. What waits under the same name is not touched.
func (m *Matcher) Answered(d DeliveryKey, id string) []Offer {
	if c := m.slots[d]; c == nil || c.worker == nil || c.worker.ID != id {
		return nil
	}
	return m.Free(d)
}

// leaveSlot returns the worker that had the delivery, and whether its only suspect
// was that.
func (m *Matcher) leaveSlot(d DeliveryKey) (w *worker, last bool) {
	c := m.slots[d]
	if c == nil {
		return nil, false
	}
	delete(m.slots, d)
	if c.worker == nil {
		m.slotLine(c.need).remove(c)
		return nil, false
	}
	c.worker.used--
	return c.worker, c.worker.clear(&c.need)
}

// Unfolded counts bytes of inputs of a run that a worker was given and has not
// answered: more of them, or (negative) fewer. A suspect that answers is none any
// more.
func (m *Matcher) Unfolded(run RunKey, id string, bytes int64) []Offer {
	w := m.workers[id]
	if w == nil {
		return nil
	}
	c := m.runs[run]
	last := bytes < 0 && c != nil && c.worker == w && w.clear(&c.need)
	offers := m.unfolded(w, bytes)
	if last {
		offers = append(offers, m.offerAll(w)...)
	}
	return offers
}

func (m *Matcher) unfolded(w *worker, bytes int64) []Offer {
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
		offers = append(offers, m.offerAll(w)...)
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
