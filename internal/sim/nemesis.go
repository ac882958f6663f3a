package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// strike lets one of the plan's faults happen, and another later.
func (w *World) strike() {
	if w.calm {
		return
	}
	what := w.plan.Faults[w.rnd.IntN(len(w.plan.Faults))]
	if w.faults()[what]() {
		w.hit(what)
	}
	w.after(nil, w.rnd.Int64N(2*w.plan.Every)+1, w.strike)
}

// faults are those of Faults. Each says whether it could happen.
func (w *World) faults() map[string]func() bool {
	kill := func(power bool) func() bool {
		return func() bool {
			if w.node.dead {
				return false
			}
			w.killNode(w.node, power)
			return true
		}
	}
	jump := func(sign int64) func() bool {
		return func() bool {
			w.skew += sign * w.rnd.Int64N(int64(time.Hour))
			w.skew = min(max(w.skew, -int64(time.Hour)), int64(time.Hour))
			return true
		}
	}
	return map[string]func() bool{
		"kill engine": kill(false), "cut power": kill(true),
		"stop engine": w.stopEngine, "freeze engine": w.freezeEngine, "two engines": w.twoEngines,
		"clock back": jump(-1), "clock forth": jump(1),
		"kill worker":      func() bool { return w.some(func(x *worker) { w.fire(x, "dies") }) },
		"freeze worker":    func() bool { return w.some(w.freezeWorker) },
		"drain worker":     func() bool { return w.some(func(x *worker) { x.leave = true; x.flush() }) },
		"cut stream":       func() bool { return w.cutStream(true, true) },
		"half-open stream": func() bool { return w.cutStream(w.rnd.IntN(2) == 0, false) || w.cutStream(false, true) },
		"disk full":        func() bool { w.fullUntil = w.now + w.rnd.Int64N(5e9); return true },
		"flood":            w.flood,
	}
}

// some does something to a worker that lives.
func (w *World) some(do func(*worker)) bool {
	live := slices.DeleteFunc(slices.Clone(w.workers), func(x *worker) bool { return x.frozen || x.leave })
	if len(live) == 0 {
		return false
	}
	do(live[w.rnd.IntN(len(live))])
	return true
}

func (w *World) cutStream(up, down bool) bool {
	with := slices.DeleteFunc(slices.Clone(w.workers), func(x *worker) bool { return x.conn == nil || x.conn.up.dead || x.conn.down.dead })
	if len(with) == 0 || !up && !down {
		return false
	}
	x := with[w.rnd.IntN(len(with))]
	w.say("the stream of %s breaks", x.name)
	x.conn.broken("the network is cut", up, down)
	return true
}

// freeze stops a process, and lets it go on some time later.
func (w *World) freeze(p *process, span int64) {
	p.frozen = true
	w.froze++
	w.say("%s stands still", p.name)
	w.after(nil, span, func() { w.thaw(p) })
}

func (w *World) thaw(p *process) {
	if p.frozen {
		p.frozen = false
		w.say("%s goes on", p.name)
	}
}

// span is how long a process stands still: less or more than anybody waits.
func (w *World) span() int64 { return w.rnd.Int64N(int64(100e6) << w.rnd.IntN(8)) }

func (w *World) freezeWorker(x *worker) {
	w.freeze(&x.process, w.span())
	if x.conn != nil {
		w.silence(x.conn, &x.process)
	}
}

func (w *World) freezeEngine() bool {
	n := w.node
	if n.dead || n.frozen {
		return false
	}
	w.freeze(&n.process, w.span())
	for _, x := range w.workers {
		if x.conn != nil && x.conn.n == n {
			w.silence(x.conn, &n.process)
		}
	}
	return true
}

// stopEngine closes the engine in order.
func (w *World) stopEngine() bool {
	n := w.node
	if n.e == nil || n.dead || n.frozen || n.closing {
		return false
	}
	n.closing = true
	w.say("%s is stopped", n.name)
	w.spawn(&n.process, n.name+" close", func() {
		if err := n.e.Close(w.ctx); err != nil && !w.mayStop(err) {
			w.fail("%s does not stop in order: %v", n.name, err)
		}
		w.exit(n)
	})
	return true
}

// twoEngines starts another engine while one that stands still has not died, as
// it happens where nothing but a lease tells them apart.
func (w *World) twoEngines() bool {
	old := w.node
	if old.e == nil || len(w.zombies) > 0 || !w.freezeEngine() {
		return false
	}
	w.zombies = append(w.zombies, old)
	w.boot()
	w.after(nil, w.span()+w.span(), func() { w.bury(old) })
	return true
}

// bury ends an engine that is not the one that serves.
func (w *World) bury(n *node) {
	w.zombies = slices.DeleteFunc(w.zombies, func(z *node) bool { return z == n })
	if !n.dead {
		w.killNode(n, false)
	}
}

// flood lets many runs start at once.
func (w *World) flood() bool {
	if w.did["flood"] > 2 {
		return false
	}
	for range 3 {
		w.floods++
		name := fmt.Sprintf("flood-%d", w.floods)
		(&client{w: w, name: name, ids: name, of: 6}).begin(6, 10e6)
	}
	return true
}

// calmDown ends all faults.
func (w *World) calmDown() {
	w.calm, w.fullUntil, w.skew = true, 0, 0
	w.say("from here on all is calm")
	for len(w.zombies) > 0 {
		w.bury(w.zombies[0])
	}
	w.thaw(&w.node.process)
	if w.did["two engines"] > 0 && !w.node.dead {
		// Nothing tells an engine with nothing to write that a shard was taken
		// from it, and given back: leases have no time yet.
		w.killNode(w.node, false)
	}
	for _, x := range slices.Clone(w.workers) {
		w.thaw(&x.process)
		if x.build == "bad" {
			w.fire(x, "is replaced")
		}
	}
}

// heldForGood says whether nothing but an order ends a run. A run whose write was
// refused is quarantined; it is ended by an order.
func (w *World) heldForGood(r *store.RunRow, state *pb.RunState) bool {
	if state.UndoState == pb.UndoState_UNDO_STATE_FAILED {
		return true
	}
	if state.Hold.GetKind() != pb.HoldKind_HOLD_KIND_QUARANTINED {
		return false
	}
	if !w.restarted && w.node.e != nil {
		w.restarted = true // which tries undos once more whose workers have died
		w.killNode(w.node, false)
	}
	if pb.Status(r.Status) == pb.Status_STATUS_RUNNING && !w.ordered[r.Run] {
		w.ordered[r.Run] = true
		w.asking++
		w.hit("quarantined")
		c := &client{w: w, name: "owner"}
		w.spawn(nil, c.name, func() {
			c.terminate(&pb.RunRef{Namespace: namespace, WorkflowId: r.WorkflowID, RunId: r.RunID}, "it is quarantined")
			w.asking--
		})
	}
	return false
}

// mayStop says whether an engine may stop by itself for that.
func (w *World) mayStop(err error) bool {
	var fatal *store.FatalError
	return errors.As(err, &fatal) && errors.Is(err, errSync)
}

// durablyStarted says whether the database knows of a delivery.
func (w *World) durablyStarted(d *pb.Delivery) bool {
	found, err := w.disk.Peek().Load(w.ctx, []store.Key{{Run: store.RunNo(d.Run)}})
	if err != nil || found[0].Run == nil {
		return false
	}
	for _, row := range found[0].Pending {
		var p pb.Pending
		if row.Op != d.Op {
			continue
		}
		if err := proto.Unmarshal(row.Data, &p); err != nil {
			return false
		}
		a := p.GetActivity()
		if settled := a.Phase >= pb.Phase_PHASE_ARMED; settled && d.Role == pb.Role_ROLE_FORWARD {
			return true // it began, and was given up since
		}
		return a.Delivery >= d.Delivery
	}
	return true // it has ended since
}
