package engine

import (
	"fmt"

	"github.com/engined/engined/internal/apierr"
)

// acks finds the number up to which all of a stream's messages are dealt with:
// every item of theirs refused, or durable.
type acks struct {
	durable, newest int64
	open            map[int64]int // items still open, by the message's seq
	items           int           // the sum of open
}

// maxOpen bounds the items of a stream that are not dealt with: far more than a
// worker has runs and slots, so that it is reached by one that does not keep to
// the rules.
const maxOpen = 200_000

func newAcks() acks { return acks{open: map[int64]int{}} }

// expect notes a message with n items; true when durable moved. A message out of
// turn, or too many items, end the stream.
func (a *acks) expect(seq int64, n int) (bool, error) {
	switch {
	case seq != a.newest+1:
		return false, apierr.New(apierr.InvalidArgument, "work", fmt.Sprintf("message %d came after %d", seq, a.newest), "number the messages of a stream from 1")
	case n > 0 && a.items+n > maxOpen:
		return false, apierr.New(apierr.ResourceExhausted, "work", fmt.Sprintf("%d items wait, the limit is %d", a.items+n, maxOpen), "connect again")
	}
	a.newest = seq
	a.open[seq] = n
	a.items += n
	return a.advance(), nil
}

// done notes that an item of the message is dealt with; true when durable moved.
func (a *acks) done(seq int64) bool {
	if n, ok := a.open[seq]; ok && n > 0 {
		a.open[seq] = n - 1
		a.items--
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
