package match

// line is a first-in, first-out queue from which a claim may also leave in the
// middle: it leaves a gap there, which is skipped later, so that leaving costs
// nothing by the length of the line.
type line[K comparable] struct {
	claims []*claim[K]
	at     map[*claim[K]]int // index in claims, plus dropped
	// dropped counts the elements cut off the front so far.
	dropped int
}

func lineOf[K comparable](m map[pool]*line[K], p pool) *line[K] {
	l := m[p]
	if l == nil {
		l = &line[K]{at: map[*claim[K]]int{}}
		m[p] = l
	}
	return l
}

func (l *line[K]) empty() bool { return len(l.at) == 0 }

func (l *line[K]) push(c *claim[K]) {
	l.at[c] = len(l.claims) + l.dropped
	l.claims = append(l.claims, c)
}

// head is the claim at the front, or nil.
func (l *line[K]) head() *claim[K] {
	if l == nil || len(l.claims) == 0 {
		return nil
	}
	return l.claims[0] // no gap: those at the front are cut off
}

func (l *line[K]) remove(c *claim[K]) {
	i, ok := l.at[c]
	if !ok {
		return
	}
	delete(l.at, c)
	l.claims[i-l.dropped] = nil
	l.trim()
}

// trim cuts gaps off the front.
func (l *line[K]) trim() {
	n := 0
	for n < len(l.claims) && l.claims[n] == nil {
		n++
	}
	l.claims = l.claims[n:]
	l.dropped += n
	if len(l.claims) == 0 {
		l.claims, l.dropped = nil, 0
	}
}

// each offers the claims in their order, removes those that are taken, and stops
// when no more are wanted.
func (l *line[K]) each(offer func(*claim[K]) (take, more bool)) {
	for i := l.dropped; i < l.dropped+len(l.claims); i++ {
		i = max(i, l.dropped) // gaps at the front are cut off meanwhile
		c := l.claims[i-l.dropped]
		if c == nil {
			continue
		}
		take, more := offer(c)
		if take {
			l.remove(c)
		}
		if !more {
			return
		}
	}
}
