package property

import (
	"slices"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
)

// desk is a machine.Desk that gives whatever it has, first come, first served; while
// it is slow it lets everybody wait, and offers later.
type desk struct {
	procs []*proc // connected
	runs  map[store.RunNo]*claim
	slots map[machine.DeliveryKey]*claim
	bytes map[store.RunNo]int64
	slow  bool
	lines int64
	// said is what it has answered in the present step.
	said []deskSaid
}

type claim struct {
	worker   string // empty while it waits
	place    int64
	need     machine.Need
	excluded []string
}

type deskSaid struct {
	key    machine.DeliveryKey
	held   bool
	worker string
	ok     bool
}

// proc is a worker process.
type proc struct {
	id, build string
	slots     int
	connected bool
	dead      bool
}

func newDesk() *desk {
	return &desk{runs: map[store.RunNo]*claim{}, slots: map[machine.DeliveryKey]*claim{}, bytes: map[store.RunNo]int64{}}
}

func (d *desk) find(id string) *proc {
	for _, p := range d.procs {
		if p.id == id {
			return p
		}
	}
	return nil
}

func (d *desk) used(id string) int {
	n := 0
	for _, c := range d.slots {
		if c.worker == id {
			n++
		}
	}
	return n
}

func (d *desk) pick(prefer string, fits func(*proc) bool) string {
	if p := d.find(prefer); p != nil && fits(p) {
		return prefer
	}
	for _, p := range d.procs {
		if fits(p) {
			return p.id
		}
	}
	return ""
}

func (d *desk) pickFor(c *claim, slot bool) string {
	if slot {
		return d.pick(c.need.Prefer, func(p *proc) bool { return d.used(p.id) < p.slots })
	}
	return d.pick(c.need.Prefer, func(p *proc) bool { return !slices.Contains(c.excluded, p.build) })
}

func (d *desk) claim(c *claim, slot bool) (string, bool) {
	d.lines++
	c.place = d.lines
	if !d.slow {
		c.worker = d.pickFor(c, slot)
	}
	return c.worker, c.worker != ""
}

// Assign gives a worker to a run.
func (d *desk) Assign(run store.RunNo, n machine.Need, excluded []string) (string, bool) {
	c := &claim{need: n, excluded: slices.Clone(excluded)}
	d.runs[run] = c
	return d.claim(c, false)
}

// Unassign ends that.
func (d *desk) Unassign(run store.RunNo) { delete(d.runs, run) }

// Slot gives a slot to a delivery.
func (d *desk) Slot(k machine.DeliveryKey, n machine.Need) (string, bool) {
	c := &claim{need: n}
	delete(d.slots, k)
	w, ok := d.claim(c, true)
	d.slots[k] = c
	d.said = append(d.said, deskSaid{k, false, w, ok})
	return w, ok
}

// Hold leaves a delivery its slot.
func (d *desk) Hold(k machine.DeliveryKey, worker string, _ bool) bool {
	ok := d.find(worker) != nil
	if ok {
		d.slots[k] = &claim{worker: worker}
	}
	d.said = append(d.said, deskSaid{k, true, worker, ok})
	return ok
}

// Free ends a slot or a wait.
func (d *desk) Free(k machine.DeliveryKey, worker string) {
	if c := d.slots[k]; c != nil && (worker == "" || c.worker == worker) {
		delete(d.slots, k)
	}
}

// Leave ends all that a run has.
func (d *desk) Leave(run store.RunNo) {
	delete(d.runs, run)
	for k := range d.slots {
		if k.Run == run {
			delete(d.slots, k)
		}
	}
}

// Unfolded counts what a run's worker has to answer.
func (d *desk) Unfolded(run store.RunNo, _ string, bytes int64) { d.bytes[run] += bytes }

func (d *desk) disconnect(id string) {
	d.procs = slices.DeleteFunc(d.procs, func(p *proc) bool { return p.id == id })
	for run, c := range d.runs {
		if c.worker == id {
			delete(d.runs, run)
		}
	}
	for k, c := range d.slots {
		if c.worker == id {
			delete(d.slots, k)
		}
	}
}

// offers gives what there is to those who wait longest.
func (d *desk) offers() []machine.Input {
	type waits struct {
		*claim
		in func() machine.Input
	}
	var all []waits
	for run, c := range d.runs {
		all = append(all, waits{c, func() machine.Input { return &machine.RunOffered{Run: run, Worker: c.worker} }})
	}
	for k, c := range d.slots {
		all = append(all, waits{c, func() machine.Input { return &machine.SlotOffered{Delivery: k, Worker: c.worker} }})
	}
	slices.SortFunc(all, func(a, b waits) int { return int(a.place - b.place) })
	var offers []machine.Input
	for _, x := range all {
		if x.worker != "" {
			continue
		}
		in := x.in()
		_, slot := in.(*machine.SlotOffered)
		if x.claim.worker = d.pickFor(x.claim, slot); x.worker != "" {
			offers = append(offers, x.in())
		}
	}
	return offers
}

func (d *desk) reset() {
	clear(d.runs)
	clear(d.slots)
	clear(d.bytes)
	d.said = nil
}
