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
		w.mayHave(n) && w.unfolded < MaxUnfoldedBytes && !slices.Contains(n.Excluded, w.Build)
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
	return !w.draining && w.Namespace == n.Namespace && w.Queue == n.Queue && w.activity[n.Type] && w.mayHave(n) && w.used < w.Slots
}

// mayHave keeps suspects apart.
func (w *worker) mayHave(n Need) bool { return !n.Suspect || w.suspects == 0 }

func (m *Matcher) giveRun(c *claim[RunKey], w *worker) {
	c.worker = w
	w.runs++
	w.suspect(c.need)
}

func (m *Matcher) giveSlot(c *claim[DeliveryKey], w *worker) {
	c.worker = w
	w.used++
	w.suspect(c.need)
}

func (w *worker) suspect(n Need) {
	if n.Suspect {
		w.suspects++
	}
}

// clear notes that what the worker has of this need is no suspect there any more,
// and says whether that has made room for another.
func (w *worker) clear(n *Need) bool {
	if !n.Suspect {
		return false
	}
	n.Suspect = false
	w.suspects--
	return w.suspects == 0
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
		l.each(func(c *claim[RunKey]) (take, more bool) {
			if w.offered >= maxOffered || !w.canFold(c.need) {
				return false, w.offered < maxOffered
			}
			m.giveRun(c, w)
			c.offered = true
			w.offered++
			offers = append(offers, Offer{Worker: w.ID, Run: c.key})
			return true, true
		})
	}
	return offers
}

// offerSlots gives the worker's free slots to those who wait, one of each type
// in turn, so that no type starves behind another: the turn goes on where it
// stopped, for mostly there is one slot to give.
func (m *Matcher) offerSlots(w *worker) []Offer {
	var offers []Offer
	n := len(w.ActivityTypes)
	for passed := 0; passed < n && w.used < w.Slots && !w.draining; w.turn = (w.turn + 1) % n {
		c := m.nextSlot(w, pool{w.Namespace, w.Queue, w.ActivityTypes[w.turn]})
		if c == nil {
			passed++
			continue
		}
		passed = 0
		m.slotLine(c.need).remove(c)
		m.giveSlot(c, w)
		offers = append(offers, Offer{Worker: w.ID, Slot: true, Delivery: c.key})
	}
	return offers
}

// nextSlot is who has waited for longest for a slot of the pool and may have the
// worker's.
func (m *Matcher) nextSlot(w *worker, p pool) *claim[DeliveryKey] {
	c := m.slotWait[p].head()
	if w.suspects > 0 {
		return c
	}
	if x := m.suspectWait[p].head(); c == nil || x != nil && x.ticket < c.ticket {
		return x
	}
	return c
}

func poolOf(n Need) pool { return pool{n.Namespace, n.Queue, n.Type} }

func set(types []string) map[string]bool {
	m := make(map[string]bool, len(types))
	for _, t := range types {
		m[t] = true
	}
	return m
}
