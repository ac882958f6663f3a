package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/engined/engined/examples/saga/internal/chaos"
	"github.com/engined/engined/examples/saga/internal/wire"
)

func TestALostRequestDoesNothing(t *testing.T) {
	r := start(t, wire.Payments, script{wire.Charge: faults(chaos.LoseRequest)})
	r.lost(wire.Charge, "k", 1, charge)
	r.kinds()
	r.want("", wire.Charge, "k", 2, charge)
	r.kinds(wire.Charge)
	r.faults(chaos.LoseRequest)
}

func TestALostAnswerIsLostAfterTheWork(t *testing.T) {
	r := start(t, wire.Payments, script{wire.Charge: faults(chaos.LoseAnswer, chaos.LoseAnswer), wire.Refund: faults(chaos.LoseAnswer)})
	r.lost(wire.Charge, "k", 1, charge)
	r.kinds(wire.Charge)
	r.want("", wire.Charge, "k", 2, charge) // no work, so nothing to lose after it
	r.lost(wire.Refund, "u", 3, undo("k", wire.Done))
	r.want("", wire.Refund, "u", 4, undo("k", wire.Done))
	r.kinds(wire.Charge, wire.RowRepeat, wire.Refund, wire.RowRepeat)
	r.faults(chaos.LoseAnswer, chaos.LoseAnswer)
}

func TestTheSeedRefusesForGood(t *testing.T) {
	for s, c := range map[wire.Service]struct {
		request any
		code    wire.Code
	}{wire.Payments: {charge, wire.Declined}, wire.Stock: {reserve, wire.OutOfStock}, wire.Shipping: {parcel, wire.BadAddress}} {
		r := start(t, s, script{s.Forward(): faults(chaos.Refuse, chaos.Refuse)})
		r.want(c.code, s.Forward(), "k", 1, c.request)
		r.want(c.code, s.Forward(), "k", 2, c.request)
		r.want(c.code, s.Forward(), "k", 3, c.request)
		r.faults(chaos.Refuse) // once: it happened once
		r.left("A", 5)
	}
}

func TestASlowCallIsAnsweredAndCounted(t *testing.T) {
	r := start(t, wire.Mail, script{wire.Send: {{Kind: chaos.Slow, Delay: 1}}})
	r.want("", wire.Send, "k", 1, mail)
	r.faults(chaos.Slow)
}

func TestWhatTheTradeRefusesMeetsNoFault(t *testing.T) {
	r := start(t, wire.Payments, script{wire.Charge: faults(chaos.LoseRequest)})
	declined := charge
	declined.Card = "4000000000000002"
	r.want(wire.Declined, wire.Charge, "k", 1, declined)
	r.faults()
}

func TestALateDeliveryAfterTheRetryDoesNothingMore(t *testing.T) {
	r := start(t, wire.Payments, script{wire.Charge: faults(chaos.Late)})
	r.lost(wire.Charge, "k", 1, charge)
	r.kinds()
	r.faults() // it has not happened yet
	r.want("", wire.Charge, "k", 2, charge)
	r.settle()
	r.kinds(wire.Charge, "refused old-fence")
	r.faults(chaos.Late)
	r.settle()
	r.faults(chaos.Late) // once
}

func TestALateDeliveryBeforeTheRetryDoesTheWork(t *testing.T) {
	r := start(t, wire.Payments, script{wire.Charge: faults(chaos.Late)})
	r.lost(wire.Charge, "k", 1, charge)
	r.reopen() // it is on its way whatever becomes of the process
	if held := r.page().Held; held != 1 {
		t.Errorf("%d calls are held back", held)
	}
	r.settle()
	r.want("", wire.Charge, "k", 2, charge)
	r.kinds(wire.Charge, wire.RowRepeat)
	r.faults(chaos.Late)
}

func TestALateDeliveryAfterTheUndoIsRefused(t *testing.T) {
	for name, stop := range map[string]bool{"same process": false, "next process": true} {
		t.Run(name, func(t *testing.T) {
			r := start(t, wire.Payments, script{wire.Charge: faults(chaos.Late)})
			r.lost(wire.Charge, "k", 1, charge)
			r.want("", wire.Refund, "u", 2, undo("k", wire.Unknown))
			if stop {
				r.reopen()
			}
			r.settle()
			r.kinds(wire.RowSeal, "refused sealed")
			r.faults(chaos.LateAfterUndo)
		})
	}
}

func TestACallHeldUntilItsUndoComesRightAfterIt(t *testing.T) {
	r := start(t, wire.Stock, script{wire.Reserve: faults(chaos.LateAfterUndo, chaos.LateAfterUndo, chaos.LateAfterUndo)})
	r.lost(wire.Reserve, "k", 1, reserve)
	r.lost(wire.Reserve, "k", 2, reserve) // nothing of the key gets through
	r.lost(wire.Reserve, "k", 3, reserve)
	r.kinds()
	r.want("", wire.Release, "u", 4, undo("k", wire.Unknown))
	r.kinds(wire.RowSeal, "refused sealed")
	r.faults(chaos.LoseRequest, chaos.LoseRequest, chaos.LateAfterUndo)
	r.left("A", 5)
	if held := r.page().Held; held != 0 {
		t.Errorf("%d calls are held back", held)
	}
}

func TestALateCallComesByItselfWhenItIsDue(t *testing.T) {
	r := start(t, wire.Mail, script{wire.Send: {{Kind: chaos.Late, Delay: 1}}})
	r.lost(wire.Send, "k", 1, mail)
	bound, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for r.page().Held > 0 { // each turn is a round trip
		if bound.Err() != nil {
			t.Fatal("the call never comes")
		}
	}
	r.kinds(wire.Send)
	r.faults(chaos.Late)
}

func TestALateUndoIsAnUndo(t *testing.T) {
	r := start(t, wire.Stock, script{wire.Release: faults(chaos.Late)})
	r.want("", wire.Reserve, "k", 1, reserve)
	r.lost(wire.Release, "u", 2, undo("k", wire.Done))
	r.left("A", 3)
	r.settle()
	r.left("A", 5)
	r.want("", wire.Release, "u", 3, undo("k", wire.Done))
	r.kinds(wire.Reserve, wire.Release, wire.RowRepeat)
	r.faults(chaos.Late)
}
