package engine

// acks finds the number up to which all of a worker's messages are dealt with:
// every item of theirs refused, or durable.
type acks struct {
	durable int64
	open    map[int64]int // items still open, by the message's seq
}

func newAcks() acks { return acks{open: map[int64]int{}} }

// expect notes a message with n items; true when durable moved.
func (a *acks) expect(seq int64, n int) bool {
	a.open[seq] = n
	return a.advance()
}

// done notes that an item of the message is dealt with; true when durable moved.
func (a *acks) done(seq int64) bool {
	if n, ok := a.open[seq]; ok {
		a.open[seq] = n - 1
	}
	return a.advance()
}

func (a *acks) advance() bool {
	moved := false
	for {
		n, ok := a.open[a.durable+1]
		if !ok || n > 0 {
			return moved
		}
		delete(a.open, a.durable+1)
		a.durable++
		moved = true
	}
}
