package match

import "slices"

// pickForRun returns the worker that may take the run and holds the fewest; the
// one that connected first among equals.
func (m *Matcher) pickForRun(n Need) *worker {
	var best *worker
	for _, w := range m.order {
		if !w.canFold(n) {
			continue
		}
		if w.ID == n.Prefer {
			return w
		}
		if best == nil || w.runs < best.runs {
			best = w
		}
	}
	return best
}

func (w *worker) canFold(n Need) bool {
	return !w.draining && w.Namespace == n.Namespace && w.Queue == n.Queue && w.workflows[n.Type] &&
		w.unfolded < MaxUnfoldedBytes && !slices.Contains(n.Excluded, w.Build)
}

// pickForSlot returns the worker that may run the activity and has the most
// free slots.
func (m *Matcher) pickForSlot(n Need) *worker {
	var best *worker
	for _, w := range m.order {
		if !w.canRun(n) {
			continue
		}
		if w.ID == n.Prefer {
			return w
		}
		if best == nil || w.Slots-w.used > best.Slots-best.used {
			best = w
		}
	}
	return best
}

func (w *worker) canRun(n Need) bool {
	return !w.draining && w.Namespace == n.Namespace && w.Queue == n.Queue && w.activity[n.Type] && w.used < w.Slots
}

func (m *Matcher) giveRun(c *claim[RunKey], w *worker) {
	c.worker = w
	w.runs++
}

// offerRuns gives the worker to the runs that wait for one like it. Those that
// it may not have keep their places.
func (m *Matcher) offerRuns(w *worker) []Offer {
	var offers []Offer
	for _, typ := range w.WorkflowTypes {
		l := m.runWait[pool{w.Namespace, w.Queue, typ}]
		if l == nil {
			continue
		}
		l.each(func(c *claim[RunKey]) bool {
			if !w.canFold(c.need) {
				return false
			}
			m.giveRun(c, w)
			offers = append(offers, Offer{Worker: w.ID, Run: c.key})
			return true
		})
	}
	return offers
}

// offerSlots gives the worker's free slots to those who wait, one of each type
// in turn, so that no type starves behind another.
func (m *Matcher) offerSlots(w *worker) []Offer {
	var offers []Offer
	for gave := true; gave && !w.draining; {
		gave = false
		for _, typ := range w.ActivityTypes {
			l := m.slotWait[pool{w.Namespace, w.Queue, typ}]
			if w.used >= w.Slots || l == nil || l.empty() {
				continue
			}
			c := l.pop()
			c.worker = w
			w.used++
			offers = append(offers, Offer{Worker: w.ID, Slot: true, Delivery: c.key})
			gave = true
		}
	}
	return offers
}

func poolOf(n Need) pool { return pool{n.Namespace, n.Queue, n.Type} }

func set(types []string) map[string]bool {
	m := make(map[string]bool, len(types))
	for _, t := range types {
		m[t] = true
	}
	return m
}
