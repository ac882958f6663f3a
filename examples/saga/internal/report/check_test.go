package report_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/engined/engined/examples/saga/internal/chaos"
	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/report"
	"github.com/engined/engined/examples/saga/internal/wire"
)

func item(order, sku string, quantity, cents int64) orders.Item {
	return orders.Item{Order: order, SKU: sku, Name: sku, Quantity: quantity, Cents: cents}
}

// balanced is a small run by hand: "ok" is shipped, "sealed" fails with an
// unknown reservation whose call comes after its undo, "back" is undone after its
// parcel had left, and "no" is declined.
func balanced() report.Input {
	file := &orders.File{
		Stock: []orders.Stock{{SKU: "A", Name: "A", Quantity: 10}, {SKU: "B", Name: "B", Quantity: 5}},
		Orders: []orders.Order{
			{ID: "ok", Items: []orders.Item{item("ok", "A", 2, 100), item("ok", "B", 1, 50)}},
			{ID: "sealed", Items: []orders.Item{item("sealed", "A", 1, 100)}},
			{ID: "back", Items: []orders.Item{item("back", "B", 2, 50)}},
			{ID: "no", Items: []orders.Item{item("no", "A", 1, 100)}},
		},
	}
	var faults []wire.Fault
	for _, k := range chaos.Wanted() {
		faults = append(faults, wire.Fault{Kind: string(k), Endpoint: wire.Charge, Key: "c1", Try: 1})
	}
	return report.Input{
		File:  file,
		Blows: []report.Blow{{What: "it was killed", N: 3, Least: 3}, {What: "it was frozen", N: 1}},
		Outcomes: []report.Outcome{
			{Order: "ok", Status: report.Completed}, {Order: "sealed", Status: "failed", Undo: "compensated"},
			{Order: "back", Status: "failed", Undo: "compensated"}, {Order: "no", Status: "failed"},
		},
		Ledgers: []wire.Ledger{
			{Service: wire.Payments, Starts: 1, Faults: faults, Rows: number(
				wire.Row{Kind: wire.Charge, Key: "c1", Fence: 1, Order: "ok", Cents: 250},
				wire.Row{Kind: wire.RowRepeat, Key: "c1", Fence: 2, Order: "ok"},
				wire.Row{Kind: wire.Charge, Key: "c2", Fence: 1, Order: "sealed", Cents: 100},
				wire.Row{Kind: wire.Charge, Key: "c3", Fence: 1, Order: "back", Cents: 100},
				wire.Row{Kind: wire.RowRefused, Key: "c4", Fence: 1, Order: "no", Code: wire.Declined},
				wire.Row{Kind: wire.Refund, Key: "u2", ForwardKey: "c2", Fence: 2, Order: "sealed", Cents: 100, Claim: wire.Done},
				wire.Row{Kind: wire.Refund, Key: "u3", ForwardKey: "c3", Fence: 2, Order: "back", Cents: 100, Claim: wire.Unknown},
			)},
			{Service: wire.Stock, Starts: 2, Rows: number(
				wire.Row{Kind: wire.Reserve, Key: "r1a", Fence: 1, Order: "ok", SKU: "A", Quantity: 2},
				wire.Row{Kind: wire.Reserve, Key: "r1b", Fence: 1, Order: "ok", SKU: "B", Quantity: 1},
				wire.Row{Kind: wire.RowSeal, Key: "ur2", ForwardKey: "r2", Fence: 3, Order: "sealed", Claim: wire.Unknown},
				wire.Row{Kind: wire.RowRefused, Key: "r2", Fence: 1, Order: "sealed", Code: wire.IsSealed},
				wire.Row{Kind: wire.Reserve, Key: "r3", Fence: 1, Order: "back", SKU: "B", Quantity: 2},
				wire.Row{Kind: wire.Release, Key: "ur3", ForwardKey: "r3", Fence: 2, Order: "back", SKU: "B", Quantity: 2, Claim: wire.Done},
			), Shelves: []wire.Shelf{{SKU: "A", Initial: 10, Left: 8}, {SKU: "B", Initial: 5, Left: 4}}},
			{Service: wire.Shipping, Starts: 1, Rows: number(
				wire.Row{Kind: wire.Ship, Key: "s1", Fence: 1, Order: "ok"},
				wire.Row{Kind: wire.Ship, Key: "s3", Fence: 1, Order: "back"},
				wire.Row{Kind: wire.Cancel, Key: "us3", ForwardKey: "s3", Fence: 2, Order: "back", Claim: wire.Unknown},
			)},
			{Service: wire.Mail, Starts: 1, Rows: number(
				wire.Row{Kind: wire.Send, Key: "m1", Fence: 1, Order: "ok"},
			)},
		},
	}
}

func number(rows ...wire.Row) []wire.Row {
	for i := range rows {
		rows[i].N = int64(i) + 1
	}
	return rows
}

const payments, stock, shipping, mail = 0, 1, 2, 3

// more adds a line to a ledger.
func more(in *report.Input, ledger int, r wire.Row) {
	l := &in.Ledgers[ledger]
	r.N = int64(len(l.Rows)) + 1
	l.Rows = append(l.Rows, r)
}

// without takes a line out of a ledger and numbers the others again.
func without(in *report.Input, ledger, i int) {
	l := &in.Ledgers[ledger]
	l.Rows = number(slices.Delete(l.Rows, i, i+1)...)
}

var planted = []struct {
	name string
	rule report.Rule
	// order is what a finding must name; "" is any.
	order string
	plant func(*report.Input)
}{
	{"a ledger is missing", report.AllThere, "", func(in *report.Input) { in.Ledgers = in.Ledgers[:3] }},
	{"a ledger is there twice", report.AllThere, "", func(in *report.Input) { in.Ledgers[3] = in.Ledgers[2] }},
	{"a line is missing", report.AllThere, "", func(in *report.Input) { l := &in.Ledgers[payments]; l.Rows = slices.Delete(l.Rows, 1, 2) }},
	{"a line of another trade", report.AllThere, "ok", func(in *report.Input) { in.Ledgers[mail].Rows[0].Kind = wire.Ship }},
	{"a call is still on its way", report.AllThere, "", func(in *report.Input) { in.Ledgers[stock].Held = 1 }},

	{"an order has no outcome", report.Settled, "no", func(in *report.Input) { in.Outcomes = in.Outcomes[:3] }},
	{"an order has two outcomes", report.Settled, "ok", func(in *report.Input) { in.Outcomes = append(in.Outcomes, in.Outcomes[0]) }},
	{"an undo has failed for good", report.Settled, "sealed", func(in *report.Input) { in.Outcomes[1].Broken = true }},

	{"a refund is missing", report.Money, "sealed", func(in *report.Input) { without(in, payments, 5) }},
	{"a charge of a shipped order is missing", report.Money, "ok", func(in *report.Input) { without(in, payments, 0) }},
	{"too much was charged", report.Money, "ok", func(in *report.Input) { in.Ledgers[payments].Rows[0].Cents++ }},
	{"too little was refunded", report.Money, "back", func(in *report.Input) { in.Ledgers[payments].Rows[6].Cents-- }},
	{"a declined order was charged", report.Money, "no", func(in *report.Input) {
		more(in, payments, wire.Row{Kind: wire.Charge, Key: "c5", Fence: 1, Order: "no", Cents: 100})
	}},
	{"a shipped order was refunded", report.Money, "ok", func(in *report.Input) {
		more(in, payments, wire.Row{Kind: wire.Refund, Key: "u1", ForwardKey: "c1", Fence: 9, Order: "ok", Cents: 250})
	}},

	{"goods of a failed order are not back", report.Goods, "back", func(in *report.Input) {
		without(in, stock, 5)
		in.Ledgers[stock].Shelves[1].Left -= 2
	}},
	{"a shipped item was never taken", report.Goods, "ok", func(in *report.Input) {
		without(in, stock, 1)
		in.Ledgers[stock].Shelves[1].Left++
	}},
	{"a piece has vanished", report.Goods, "", func(in *report.Input) { in.Ledgers[stock].Shelves[0].Left-- }},
	{"the shelves began with other goods", report.Goods, "", func(in *report.Input) {
		in.Ledgers[stock].Shelves[0].Initial++
		in.Ledgers[stock].Shelves[0].Left++
	}},
	{"a shelf is gone", report.Goods, "", func(in *report.Input) { in.Ledgers[stock].Shelves = in.Ledgers[stock].Shelves[:1] }},

	{"a completed order was not shipped", report.Parcels, "ok", func(in *report.Input) { without(in, shipping, 0) }},
	{"a parcel left twice", report.Parcels, "ok", func(in *report.Input) {
		more(in, shipping, wire.Row{Kind: wire.Ship, Key: "s9", Fence: 1, Order: "ok"})
	}},
	{"a failed order was shipped", report.Parcels, "back", func(in *report.Input) { without(in, shipping, 2) }},
	{"the engine calls a shipped order failed", report.Parcels, "ok", func(in *report.Input) { in.Outcomes[0].Status = "failed" }},
	{"the engine calls a failed order completed", report.Parcels, "no", func(in *report.Input) { in.Outcomes[3].Status = report.Completed }},

	{"no mail", report.OneMail, "ok", func(in *report.Input) { without(in, mail, 0) }},
	{"two mails", report.OneMail, "ok", func(in *report.Input) {
		more(in, mail, wire.Row{Kind: wire.Send, Key: "m9", Fence: 1, Order: "ok"})
	}},
	{"a mail about a failed order", report.OneMail, "no", func(in *report.Input) {
		more(in, mail, wire.Row{Kind: wire.Send, Key: "m4", Fence: 1, Order: "no"})
	}},

	{"a key was charged twice", report.Once, "ok", func(in *report.Input) {
		more(in, payments, wire.Row{Kind: wire.Charge, Key: "c1", Fence: 9, Order: "ok", Cents: 250})
	}},
	{"an undo key refunded twice", report.Once, "sealed", func(in *report.Input) {
		more(in, payments, wire.Row{Kind: wire.Refund, Key: "u2", ForwardKey: "c2", Fence: 9, Order: "sealed", Cents: 100})
	}},
	{"one key at two services", report.Once, "ok", func(in *report.Input) { in.Ledgers[mail].Rows[0].Key = "s1" }},

	{"a forward key refunded by two undos", report.Undone, "sealed", func(in *report.Input) {
		more(in, payments, wire.Row{Kind: wire.Refund, Key: "u9", ForwardKey: "c2", Fence: 9, Order: "sealed", Cents: 100})
	}},
	{"a refund of nothing", report.Undone, "no", func(in *report.Input) {
		more(in, payments, wire.Row{Kind: wire.Refund, Key: "u4", ForwardKey: "c4", Fence: 9, Order: "no", Cents: 100})
	}},
	{"an undo of something else", report.Undone, "back", func(in *report.Input) { in.Ledgers[stock].Rows[5].Quantity = 1 }},
	{"a seal in place of an undo", report.Undone, "sealed", func(in *report.Input) { in.Ledgers[payments].Rows[5].Kind = wire.RowSeal }},

	{"an effect after the seal", report.SealHolds, "sealed", func(in *report.Input) {
		more(in, stock, wire.Row{Kind: wire.Reserve, Key: "r2", Fence: 4, Order: "sealed", SKU: "A", Quantity: 1})
	}},
	{"an effect after the undo", report.SealHolds, "back", func(in *report.Input) {
		more(in, shipping, wire.Row{Kind: wire.Ship, Key: "s3", Fence: 9, Order: "back"})
	}},

	{"a lower fence was taken", report.FenceHolds, "ok", func(in *report.Input) { in.Ledgers[payments].Rows[1].Fence = 0 }},

	{"a key on two endpoints", report.GoodCaller, "ok", func(in *report.Input) {
		more(in, payments, wire.Row{Kind: wire.RowRefused, Key: "c1", Fence: 3, Order: "ok", Code: wire.OtherEndpoint})
	}},
	{"a key for two requests", report.GoodCaller, "ok", func(in *report.Input) {
		more(in, payments, wire.Row{Kind: wire.RowRefused, Key: "c1", Fence: 3, Order: "ok", Code: wire.OtherBody})
	}},

	{"a charge for nobody", report.Placed, "ghost", func(in *report.Input) {
		more(in, payments, wire.Row{Kind: wire.Charge, Key: "c9", Fence: 1, Order: "ghost", Cents: 5})
	}},
	{"an outcome for nobody", report.Placed, "ghost", func(in *report.Input) {
		in.Outcomes = append(in.Outcomes, report.Outcome{Order: "ghost", Status: "failed"})
	}},

	{"a step that was answered as done is not there", report.NothingLost, "sealed", func(in *report.Input) {
		in.Ledgers[stock].Rows[2].Claim = wire.Done
	}},
}

func TestABalancedRunIsBalanced(t *testing.T) {
	if err := report.Judge(balanced()); err != nil {
		t.Error(err)
	}
}

func TestEveryPlantedImbalanceIsFound(t *testing.T) {
	caught := map[report.Rule]bool{}
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			in := balanced()
			p.plant(&in)
			found := report.Check(in)
			if !slices.ContainsFunc(found, func(f report.Finding) bool {
				return f.Rule == p.rule && (p.order == "" || f.Order == p.order)
			}) {
				t.Errorf("found only %q", found)
			}
			caught[p.rule] = true
			e, ok := errors.AsType[*report.ImbalanceError](report.Judge(in))
			if !ok || !slices.Equal(e.Findings, found) {
				t.Errorf("Judge says %v", e)
			}
			for _, f := range found {
				if !strings.Contains(e.Error(), f.String()) {
					t.Errorf("the error does not list %q", f)
				}
			}
		})
	}
	for _, r := range []report.Rule{report.AllThere, report.Settled, report.Money, report.Goods, report.Parcels, report.OneMail, report.Once,
		report.Undone, report.SealHolds, report.FenceHolds, report.GoodCaller, report.Placed, report.NothingLost} {
		if !caught[r] {
			t.Errorf("nothing is planted against %q", r)
		}
	}
}

func TestFindingsComeInAFixedOrder(t *testing.T) {
	in := balanced()
	in.Ledgers[stock].Shelves = nil
	in.Ledgers[stock].Rows = nil
	first := report.Check(in)
	for range 20 {
		if got := report.Check(in); !slices.Equal(got, first) {
			t.Fatalf("%q, then %q", first, got)
		}
	}
}

func TestARunWithoutAWantedFaultIsVoid(t *testing.T) {
	for i, k := range chaos.Wanted() {
		in := balanced()
		l := &in.Ledgers[payments]
		l.Faults = slices.Delete(l.Faults, i, i+1)
		v, ok := errors.AsType[*report.VoidError](report.Judge(in))
		if !ok || !slices.Equal(v.Missing, []chaos.Kind{k}) || !strings.Contains(v.Error(), string(k)) {
			t.Errorf("without %q: %v", k, v)
		}
		l.Faults = nil
		in.Ledgers[mail].Faults = balanced().Ledgers[payments].Faults // wherever it happened
		if err := report.Judge(in); err != nil {
			t.Error(err)
		}
	}
	in := balanced()
	in.Blows[0].N = 2
	v, ok := errors.AsType[*report.VoidError](report.Judge(in))
	if !ok || !slices.Equal(v.Few, in.Blows[:1]) || v.Error() != "the run is void: it was killed 2 times and not 3" {
		t.Errorf("with few kills: %v", v)
	}
	in.Outcomes[1].Broken = true
	err := report.Judge(in)
	if _, ok := errors.AsType[*report.VoidError](err); !ok {
		t.Error(err)
	}
	if _, ok := errors.AsType[*report.ImbalanceError](err); !ok {
		t.Error(err)
	}
}

func TestALedgerSurvivesItsJSON(t *testing.T) {
	in := balanced()
	data, err := json.Marshal(in.Ledgers)
	if err != nil {
		t.Fatal(err)
	}
	in.Ledgers = nil
	if err := json.Unmarshal(data, &in.Ledgers); err != nil {
		t.Fatal(err)
	}
	if err := report.Judge(in); err != nil {
		t.Error(err)
	}
}
