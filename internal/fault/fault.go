// Package fault names the moments at which a process may be made to die, so that
// tests can kill the real programs exactly there.
//
// A point is passed by a call of At. In what ships that call is nothing: the
// compiler removes it. In a binary built with the tag "faults" the environment of
// the process says at its start what happens where:
//
//	ENGINED_FAULTS="engine.commit.after=kill@37"   kill -9 of itself at the 37th passage
//	ENGINED_FAULTS="worker.fold=freeze@5"          SIGSTOP of itself at the 5th
//	ENGINED_FAULTS="engine.evict=exit@1"           exit with code 86
//	ENGINED_FAULTS_BOARD=FILE                      where passages are counted
//
// Several terms are separated by commas. Passages are counted in a file that is
// mapped into memory (Board), which a kill -9 does not take away: whoever has
// started the process reads there whether the moment really came.
//
// The package owns the table of the points, the terms and the board. It must not
// know what happens at a point, nor who kills.
package fault

import "fmt"

// Point is a moment that a process passes. A new one is added here, in names, and
// where it is passed; a test holds the three against each other.
type Point int

// The points of the engine's process.
const (
	CommitTaken    Point = iota // a batch has been taken from the shards
	CommitBefore                // before the store is given it
	CommitAfter                 // it is durable, and nothing is released
	CommitRelease               // before each effect that is released
	FenceAfter                  // the shards are fenced, and nothing is read
	LoadRows                    // rows are read, and no shard has them
	LoadHistory                 // the same of a history
	LoadDue                     // the same of what is due: the sweep of timers
	TimerFire                   // a timer is due, and has not been stepped
	DispatchBefore              // before a task is put into a worker's stream
	DispatchAfter               // after
	StreamBefore                // before a message with tasks leaves the process
	StreamAfter                 // after
	ReceiveDecided              // decisions have come from a worker
	ReceiveDone                 // a result has come from a worker
	AckBefore                   // before an item of a worker's counts as dealt with
	AnswerBefore                // before a caller is answered
	Connect                     // a worker has said hello, and the shards have not heard
	Evict                       // a run leaves memory
	ServeBefore                 // the engine runs, and takes no calls yet
	DrainBefore                 // it was told to stop, and still serves
	CloseShards                 // the shards have ended, the last commit is to come
	CloseStore                  // all is committed, the store is open

	StoreOpened       // the lock file is locked, the database has not been opened
	StoreRewritten    // the log of the process before was written again
	StoreCheckpointed // and copied into the database
	StoreMigrate      // a migration has made its tables, without a commit
	StoreMigrated     // it is committed
	StoreWritten      // the rows of a batch are written, without a COMMIT
	StoreCommitted    // COMMIT has returned

	// The points of a worker's process.

	HelloBefore    // a stream is open, and the hello has not been sent
	AssignReceived // a run has come
	TaskReceived   // a task has come
	ActivityBefore // before the activity's function is called
	ActivityAfter  // after, with its result in hand
	ResultBefore   // before a message with results is sent
	ResultAfter    // it is sent, and has not been acknowledged
	ResultDurable  // it is acknowledged, and has not been forgotten
	Fold           // between two inputs of a fold
	DecideBefore   // before a message with decisions is sent
	DecideAfter    // it is sent
	WorkerDrain    // the worker was told to stop

	points
)

var names = [points]string{
	CommitTaken: "engine.commit.taken", CommitBefore: "engine.commit.before",
	CommitAfter: "engine.commit.after", CommitRelease: "engine.commit.release",
	FenceAfter: "engine.fence.after", LoadRows: "engine.load.rows", LoadHistory: "engine.load.history",
	LoadDue: "engine.load.due", TimerFire: "engine.timer.fire",
	DispatchBefore: "engine.dispatch.before", DispatchAfter: "engine.dispatch.after",
	StreamBefore: "engine.stream.before", StreamAfter: "engine.stream.after",
	ReceiveDecided: "engine.receive.decided", ReceiveDone: "engine.receive.done",
	AckBefore: "engine.ack.before", AnswerBefore: "engine.answer.before",
	Connect: "engine.connect", Evict: "engine.evict", ServeBefore: "engine.serve.before",
	DrainBefore: "engine.drain.before", CloseShards: "engine.close.shards", CloseStore: "engine.close.store",

	StoreOpened: "store.open.locked", StoreRewritten: "store.open.rewritten", StoreCheckpointed: "store.open.checkpointed",
	StoreMigrate: "store.migrate.uncommitted", StoreMigrated: "store.migrate.committed",
	StoreWritten: "store.commit.written", StoreCommitted: "store.commit.done",

	HelloBefore: "worker.hello.before", AssignReceived: "worker.assign", TaskReceived: "worker.task",
	ActivityBefore: "worker.activity.before", ActivityAfter: "worker.activity.after",
	ResultBefore: "worker.result.before", ResultAfter: "worker.result.sent", ResultDurable: "worker.result.durable",
	Fold: "worker.fold", DecideBefore: "worker.decide.before", DecideAfter: "worker.decide.sent",
	WorkerDrain: "worker.drain",
}

// Points are all of them.
func Points() []Point {
	all := make([]Point, points)
	for i := range all {
		all[i] = Point(i)
	}
	return all
}

func (p Point) String() string {
	if p < 0 || p >= points {
		return fmt.Sprintf("fault.Point(%d)", int(p))
	}
	return names[p]
}

// OfWorker says whether the point is passed by a worker's process.
func (p Point) OfWorker() bool { return p >= HelloBefore }
