package worker

import (
	"runtime"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/engined/engined/proto/enginepb"
)

// The bounds of one message up: whichever is reached first, and one item at
// least.
const (
	messageItems = 512
	messageBytes = 1 << 20
)

// item is one thing to send: exactly one of decided, done, fault, draining.
type item struct {
	decided  *pb.Decided
	bytes    int // of decided
	done     *pb.Done
	fault    *pb.Fault
	draining bool
	// sent is told the number of the message that carries the item, before it
	// is sent.
	sent func(seq int64)
}

func (it *item) size() int {
	switch {
	case it.decided != nil:
		return it.bytes
	case it.done != nil:
		return proto.Size(it.done)
	case it.fault != nil:
		return proto.Size(it.fault)
	default:
		return 0
	}
}

// outbox is the one way up of a stream: items leave in the order in which they
// were put, all that is ready in one message. Putting never blocks, and nothing
// that the sending goroutine does waits for user code: its pings tell that the
// process lives.
type outbox struct {
	mu     sync.Mutex
	items  []item
	taken  []item // the sender's
	closed bool
	ready  chan struct{} // holds a token while there is something to do
	done   chan struct{} // closed when run has returned

	stream Stream
	seq    int64 // of the last message
	// state adds to a message what every one of them tells.
	state func(*pb.WorkerUp)
}

func newOutbox(s Stream, state func(*pb.WorkerUp)) *outbox {
	return &outbox{ready: make(chan struct{}, 1), done: make(chan struct{}), stream: s, state: state}
}

func (o *outbox) put(it item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.items = append(o.items, it)
	o.wake()
}

// close lets run return when what is there has been sent.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// pingAfter is how long a stream that is pinged goes without a message.
const pingAfter = time.Second

// run sends until the outbox is closed and empty, the stream breaks, or stop is
// closed.
func (o *outbox) run(hello *pb.Hello, stop <-chan struct{}) error {
	defer close(o.done)
	o.seq++
	if err := o.send(&pb.WorkerUp{Seq: o.seq, Hello: hello}); err != nil {
		return err
	}
	idle := time.NewTimer(pingAfter)
	if !pings(o.stream) {
		idle.Stop()
	}
	defer idle.Stop()
	for {
		var err error
		end := false
		select {
		case <-o.ready:
			// Once, so that what others are about to put comes along.
			runtime.Gosched()
			end, err = o.flush()
		case <-idle.C:
			err = o.send(&pb.WorkerUp{})
		case <-stop:
			return nil
		}
		if end || err != nil {
			return err
		}
		if pings(o.stream) {
			idle.Reset(pingAfter)
		}
	}
}

// flush sends all that is ready, and ends the stream if nothing will come.
func (o *outbox) flush() (end bool, err error) {
	for {
		items, end := o.take()
		if len(items) == 0 {
			if end {
				return true, o.stream.CloseSend()
			}
			return false, nil
		}
		o.seq++
		if err := o.send(message(o.seq, items)); err != nil {
			return false, err
		}
	}
}

func (o *outbox) send(up *pb.WorkerUp) error {
	o.state(up)
	return o.stream.Send(up)
}

// take returns what fits in one message of what is ready; end says that nothing
// is left and nothing will come.
func (o *outbox) take() (items []item, end bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, bytes := 0, 0
	for ; n < len(o.items) && n < messageItems; n++ {
		if bytes += o.items[n].size(); bytes > messageBytes && n > 0 {
			break
		}
	}
	items = append(o.taken[:0], o.items[:n]...)
	rest := copy(o.items, o.items[n:])
	clear(o.items[rest:])
	o.items, o.taken = o.items[:rest], items
	return items, o.closed && n == 0
}

// message makes the message and tells its items their number. The outbox's lock
// is not held: whoever is told may be about to put something.
func message(seq int64, items []item) *pb.WorkerUp {
	up := &pb.WorkerUp{Seq: seq}
	for i := range items {
		items[i].addTo(up)
		if items[i].sent != nil {
			items[i].sent(seq)
		}
	}
	return up
}

func (it *item) addTo(up *pb.WorkerUp) {
	switch {
	case it.decided != nil:
		up.Decided = append(up.Decided, it.decided)
	case it.done != nil:
		up.Done = append(up.Done, it.done)
	case it.fault != nil:
		up.Faults = append(up.Faults, it.fault)
	case it.draining:
		up.Draining = true
	}
}
