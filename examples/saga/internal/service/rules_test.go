package service_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/engined/engined/examples/saga/internal/wire"
)

func TestTheSameKeyGetsTheSameAnswerAndOneEffect(t *testing.T) {
	for s, request := range map[wire.Service]any{wire.Payments: charge, wire.Stock: reserve, wire.Shipping: parcel, wire.Mail: mail} {
		t.Run(string(s), func(t *testing.T) {
			r := start(t, s, nil)
			first := r.want("", s.Forward(), "k", 1, request)
			r.reopen() // the answer outlives the process
			again := r.want("", s.Forward(), "k", 2, request)
			if first.body != again.body || first.answer.ID == "" || first.answer.Did != s.Forward() {
				t.Errorf("first %s, then %s", first.body, again.body)
			}
			r.kinds(s.Forward(), wire.RowRepeat)
			if got := r.page().Starts; got != 2 {
				t.Errorf("%d starts", got)
			}
		})
	}
}

func TestCallsAtTheSameTimeHaveOneEffect(t *testing.T) {
	r := start(t, wire.Stock, nil)
	const calls = 20
	bodies := make([]string, calls)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() { bodies[i] = r.want("", wire.Reserve, "k", 1, reserve).body })
	}
	all.Wait()
	if slices.Sort(bodies); bodies[0] != bodies[calls-1] {
		t.Errorf("answers %q", bodies)
	}
	r.left("A", 3)
	if r.page().Rows[0].Kind != wire.Reserve {
		t.Error("the effect is not the first line")
	}
	for _, row := range r.page().Rows[1:] {
		if row.Kind != wire.RowRepeat {
			t.Errorf("line %d is a %s", row.N, row.Kind)
		}
	}
}

func TestAKeyOnAnotherEndpointIsRefused(t *testing.T) {
	r := start(t, wire.Payments, nil)
	r.want("", wire.Charge, "k", 1, charge)
	r.want(wire.OtherEndpoint, wire.Refund, "k", 2, undo("other", wire.Done))
	r.want("", wire.Refund, "u", 3, undo("k", wire.Done))
	r.want(wire.OtherEndpoint, wire.Charge, "u", 4, charge)
	r.want(wire.OtherEndpoint, wire.Refund, "v", 5, undo("u", wire.Done)) // undoing an undo
	r.kinds(wire.Charge, "refused other-endpoint", wire.Refund, "refused other-endpoint", "refused other-endpoint")
}

func TestAKeyWithAnotherRequestIsRefused(t *testing.T) {
	r := start(t, wire.Payments, nil)
	r.want("", wire.Charge, "k", 1, charge)
	more := charge
	more.Cents++
	r.want(wire.OtherBody, wire.Charge, "k", 2, more)
	r.want("", wire.Refund, "u", 3, undo("k", wire.Unknown))
	r.want(wire.OtherBody, wire.Refund, "u", 4, undo("k2", wire.Unknown))
	r.kinds(wire.Charge, "refused other-body", wire.Refund, "refused other-body")

	// Other blanks are no other request.
	if got, _ := r.send(wire.Charge, "j", "1", []byte(`{"order":"o2","card":"1","cents":5}`)); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got, _ := r.send(wire.Charge, "j", "1", []byte(`{ "card": "1", "order": "o2", "cents": 5 }`)); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestALowerFenceIsRefused(t *testing.T) {
	r := start(t, wire.Stock, nil)
	r.want("", wire.Reserve, "k", 7, reserve)
	r.want(wire.OldFence, wire.Reserve, "k", 6, reserve)
	r.want("", wire.Reserve, "k", 9, reserve) // raises it
	r.want(wire.OldFence, wire.Reserve, "k", 8, reserve)
	r.want(wire.OldFence, wire.Release, "u", 8, undo("k", wire.Done)) // the undo's fence is the forward key's, too
	r.left("A", 3)
	r.want("", wire.Release, "u", 10, undo("k", wire.Done))
	r.want(wire.OldFence, wire.Release, "u", 9, undo("k", wire.Done))
	r.want(wire.OldFence, wire.Release, "v", 9, undo("k", wire.Done)) // nor by another undo
	r.left("A", 5)
}

func TestAnUndoGivesBackWhatWasDoneAndOnlyOnce(t *testing.T) {
	for _, known := range []wire.Outcome{wire.Done, wire.Unknown} {
		t.Run(string(known), func(t *testing.T) {
			r := start(t, wire.Stock, nil)
			r.want("", wire.Reserve, "k", 1, reserve)
			r.left("A", 3)
			first := r.want("", wire.Release, "u", 2, undo("k", known))
			if first.answer.Did != wire.Release {
				t.Errorf("it did %q", first.answer.Did)
			}
			// A late answer makes an unknown outcome done, under the undo's same key.
			if again := r.want("", wire.Release, "u", 3, undo("k", wire.Done)); again.body != first.body {
				t.Errorf("first %s, then %s", first.body, again.body)
			}
			r.want("", wire.Release, "v", 4, undo("k", known)) // and by another key
			r.left("A", 5)
			r.want(wire.IsSealed, wire.Reserve, "k", 9, reserve) // whatever the fence
			r.left("A", 5)
			r.kinds(wire.Reserve, wire.Release, wire.RowRepeat, wire.RowRepeat, "refused sealed")
		})
	}
}

func TestAnUndoSealsWhatWasNotDone(t *testing.T) {
	r := start(t, wire.Payments, nil)
	sealed := r.want("", wire.Refund, "u", 5, undo("k", wire.Unknown))
	if sealed.answer.Did != wire.Sealed {
		t.Errorf("it did %q", sealed.answer.Did)
	}
	r.reopen()
	r.want(wire.IsSealed, wire.Charge, "k", 1, charge)
	r.want(wire.IsSealed, wire.Charge, "k", 6, charge)
	r.want("", wire.Refund, "u", 7, undo("k", wire.Unknown))
	r.kinds(wire.RowSeal, "refused sealed", "refused sealed", wire.RowRepeat)

	declined := charge
	declined.Card = "4000000000000002"
	r.want(wire.Declined, wire.Charge, "d", 1, declined)
	r.want("", wire.Refund, "v", 2, undo("d", wire.Unknown)) // a refusal did nothing either
	r.want(wire.IsSealed, wire.Charge, "d", 3, declined)
}

func TestTheTradeRefusesForGood(t *testing.T) {
	declined, broke := charge, charge
	declined.Card, broke.Card = "4000000000000002", "4000000000009995"
	strange, many := reserve, reserve
	strange.SKU, many.Quantity = "Z", 6
	far := parcel
	far.Country = "PN"
	for _, c := range []struct {
		s       wire.Service
		code    wire.Code
		request any
	}{
		{wire.Payments, wire.Declined, declined}, {wire.Payments, wire.Declined, broke},
		{wire.Stock, wire.OutOfStock, strange}, {wire.Stock, wire.OutOfStock, many},
		{wire.Shipping, wire.BadAddress, far},
	} {
		r := start(t, c.s, nil)
		first := r.want(c.code, c.s.Forward(), "k", 1, c.request)
		if again := r.want(c.code, c.s.Forward(), "k", 2, c.request); again.body != first.body {
			t.Errorf("first %s, then %s", first.body, again.body)
		}
		r.kinds("refused "+string(c.code), wire.RowRepeat)
	}
}

func TestAShelfIsNeverOverdrawnAndARefusalStands(t *testing.T) {
	r := start(t, wire.Stock, nil)
	b := wire.ReserveRequest{Order: "o1", SKU: "B", Quantity: 1}
	r.want("", wire.Reserve, "k", 1, b)
	r.want(wire.OutOfStock, wire.Reserve, "j", 1, b)
	r.want("", wire.Release, "u", 2, undo("k", wire.Done))
	r.want(wire.OutOfStock, wire.Reserve, "j", 2, b) // the key was told no
	r.want("", wire.Reserve, "i", 1, b)
	r.left("B", 0)
	r.reopen() // shelves are filled once
	r.left("B", 0)
}

func TestACallThatIsNoneIsRefusedAndLeavesNothing(t *testing.T) {
	r := start(t, wire.Payments, nil)
	good := `{"order":"o","card":"1","cents":5}`
	for name, c := range map[string]struct{ endpoint, key, fence, body string }{
		"no key":         {wire.Charge, "", "1", good},
		"long key":       {wire.Charge, strings.Repeat("k", wire.MaxKey+1), "1", good},
		"no fence":       {wire.Charge, "k", "", good},
		"fence no int":   {wire.Charge, "k", "1.5", good},
		"negative fence": {wire.Charge, "k", "-1", good},
		"no JSON":        {wire.Charge, "k", "1", "{"},
		"two values":     {wire.Charge, "k", "1", good + "}"},
		"unknown field":  {wire.Charge, "k", "1", `{"order":"o","card":"1","cents":5,"tip":1}`},
		"no order":       {wire.Charge, "k", "1", `{"card":"1","cents":5}`},
		"no amount":      {wire.Charge, "k", "1", `{"order":"o","card":"1"}`},
		"below zero":     {wire.Charge, "k", "1", `{"order":"o","card":"1","cents":-5}`},
		"no number":      {wire.Charge, "k", "1", `{"order":"o","card":"1","cents":"5"}`},
		"too large":      {wire.Charge, "k", "1", `{"order":"` + strings.Repeat("o", wire.MaxBody) + `"}`},
		"own key":        {wire.Refund, "k", "1", `{"order":"o","forward_key":"k","outcome":"done"}`},
		"no forward key": {wire.Refund, "k", "1", `{"order":"o","outcome":"done"}`},
		"no outcome":     {wire.Refund, "k", "1", `{"order":"o","forward_key":"f"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, lost := r.send(c.endpoint, c.key, c.fence, []byte(c.body))
			if lost || got.status != 400 || got.code != wire.BadCall {
				t.Errorf("lost %v, %d %s", lost, got.status, got.body)
			}
		})
	}
	r.kinds()
}
