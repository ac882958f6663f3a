package machine

import (
	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// Input is what a Step takes in.
type Input interface{ input() }

// Caller is whoever waits for an answer; the machine only hands it back.
type Caller any

// Start asks for a new run. RunID and Seed are drawn by the driver.
type Start struct {
	Req   *pb.StartRequest
	RunID string
	Seed  uint64
	To    Caller
}

// Cancel asks a run to end by itself.
type Cancel struct {
	Req *pb.CancelRequest
	To  Caller
}

// Terminate ends a run without asking its code.
type Terminate struct {
	Req *pb.TerminateRequest
	To  Caller
}

// Await is answered when the run is settled.
type Await struct {
	Ref *pb.RunRef
	To  Caller
	// Joined: it is the rest of a start that found the run there.
	Joined bool
}

// Follow is answered, by a *Followed, when the run has an event behind After
// that is durable, or can grow no more.
type Follow struct {
	Ref   *pb.RunRef
	After int64
	To    Caller
}

// Abandon takes a caller off the lists of those who await or follow a run.
type Abandon struct {
	ID ID
	To Caller
}

// Describe asks for the state of a run.
type Describe struct {
	Ref *pb.RunRef
	To  Caller
}

// Origin says which message of which worker an input came in.
type Origin struct {
	Worker string
	Build  string
	// Stream tells the streams of one worker apart; Seq counts within one.
	Stream int64
	Seq    int64
}

// Decided, Done and Fault are items of a worker's message.
type (
	Decided struct {
		Origin
		*pb.Decided
	}
	Done struct {
		Origin
		*pb.Done
	}
	Fault struct {
		Origin
		*pb.Fault
	}
)

// RunOffered gives a worker to a run that waited for one.
type RunOffered struct {
	Run    store.RunNo
	Worker string
}

// SlotOffered gives a slot to a delivery that waited for one.
type SlotOffered struct {
	Delivery DeliveryKey
	Worker   string
}

// WorkerGone says that the worker's stream is over.
type WorkerGone struct {
	Worker string
	// Orderly: the worker is known not to have died.
	Orderly bool
	// Suspects counts, over all shards, the suspects that the desk knew on it.
	Suspects int
}

// WorkerBack says that a worker process that was gone is here again, with the
// deliveries that it has received, of any shard's runs.
type WorkerBack struct {
	Worker   string
	Received []*pb.Delivery
}

// held is one of them, while its run is read.
type held struct {
	worker   string
	delivery *pb.Delivery
}

// Woken says that a wake-up is due. Op is empty for a run that only needs
// attention.
type Woken struct {
	Run store.RunNo
	Op  string
}

// RowsRead answers a Load.
type RowsRead struct {
	Load   Load
	Answer store.Loaded
	Err    error
}

// HistoryRead answers a ReadHistory.
type HistoryRead struct {
	Run    store.RunNo
	Stamp  Stamp
	Events []*pb.Event
	Err    error
}

// Refused says that the database refused to write the run.
type Refused struct {
	Run store.RunNo
	// Of is what was in memory of the run whose write was refused: its number alone
	// does not tell whether that is there still. Nil is whatever there is.
	Of     *Run
	Reason string
}

func (*Start) input()       {}
func (*Cancel) input()      {}
func (*Terminate) input()   {}
func (*Await) input()       {}
func (*Follow) input()      {}
func (*Abandon) input()     {}
func (*Describe) input()    {}
func (*Decided) input()     {}
func (*Done) input()        {}
func (*Fault) input()       {}
func (*RunOffered) input()  {}
func (*SlotOffered) input() {}
func (*WorkerGone) input()  {}
func (*WorkerBack) input()  {}
func (*held) input()        {}
func (*Woken) input()       {}
func (*RowsRead) input()    {}
func (*HistoryRead) input() {}
func (*Refused) input()     {}

// Stamp names an assignment of a run; see pb.Stamp.
type Stamp struct {
	Incarnation uint64
	Epoch       int64
}

func stampOf(s *pb.Stamp) Stamp {
	return Stamp{Incarnation: s.GetIncarnation(), Epoch: s.GetEpoch()}
}

func (s Stamp) proto() *pb.Stamp {
	return &pb.Stamp{Incarnation: s.Incarnation, Epoch: s.Epoch}
}

// DeliveryKey names one delivery of one side of an activity.
type DeliveryKey struct {
	Run      store.RunNo
	Op       string
	Role     pb.Role
	Delivery int32
}

// handed names a hand-over, also across loads of the shard and restores of its
// database, which may give a key twice.
type handed struct {
	key         DeliveryKey
	incarnation uint64
}

func handedOf(d *pb.Delivery) handed { return handed{KeyOf(d), d.GetIncarnation()} }

// KeyOf returns the key of a delivery as it stands in messages.
func KeyOf(d *pb.Delivery) DeliveryKey {
	return DeliveryKey{Run: store.RunNo(d.GetRun()), Op: d.GetOp(), Role: d.GetRole(), Delivery: d.GetDelivery()}
}
