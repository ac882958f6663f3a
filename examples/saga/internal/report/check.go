package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/wire"
)

// Rule names what must hold at the end of every run.
type Rule string

// The rules.
const (
	AllThere    Rule = "every ledger is there, whole, and nothing is under way"
	Settled     Rule = "every order has come to its end"
	Money       Rule = "charged = shipped + refunded"
	Goods       Rule = "on the shelves at the start = left + sold"
	Parcels     Rule = "a parcel for each completed order, and no other"
	OneMail     Rule = "one mail for each shipped order, and no other"
	Once        Rule = "no key has two effects"
	Undone      Rule = "an undo undoes what was done, once"
	SealHolds   Rule = "nothing is done under a key after its seal or undo"
	FenceHolds  Rule = "no fence goes back"
	GoodCaller  Rule = "no key is used for two things"
	Placed      Rule = "nothing is done for an order that nobody placed"
	NothingLost Rule = "what was answered as done was done"
)

// Finding is one thing that does not balance.
type Finding struct {
	Rule Rule
	// Order is the order that it is about, or empty.
	Order string
	What  string
}

func (f Finding) String() string {
	s := f.What
	if f.Order != "" {
		s = f.Order + ": " + s
	}
	return s + " (rule: " + string(f.Rule) + ")"
}

// Check holds the ledgers against each other, against the orders, and against
// what the engine said. It returns what does not balance, in a fixed order.
func Check(in Input) []Finding {
	c := &checker{in: in, sums: map[string]*sums{}, placed: map[string]orders.Order{}}
	for _, o := range in.File.Orders {
		c.placed[o.ID] = o
		c.sums[o.ID] = newSums()
	}
	c.complete()
	keys := newKeys(c)
	for _, l := range in.Ledgers {
		for _, r := range l.Rows {
			keys.row(l.Service, r)
			c.add(l.Service, r)
		}
	}
	outcomes := c.outcomes()
	for _, o := range in.File.Orders {
		c.order(o, outcomes[o.ID])
	}
	c.totals()
	c.shelves()
	return c.found
}

// checker collects findings.
type checker struct {
	in     Input
	placed map[string]orders.Order
	sums   map[string]*sums
	found  []Finding
}

func (c *checker) fail(r Rule, order, format string, args ...any) {
	c.found = append(c.found, Finding{Rule: r, Order: order, What: fmt.Sprintf(format, args...)})
}

// complete looks for what is missing as a whole.
func (c *checker) complete() {
	have := map[wire.Service]int{}
	for _, l := range c.in.Ledgers {
		have[l.Service]++
		if l.Held > 0 {
			c.fail(AllThere, "", "%s: %d calls are still held back", l.Service, l.Held)
		}
		for i, r := range l.Rows {
			if r.N != int64(i)+1 {
				c.fail(AllThere, "", "%s: line %d stands where line %d should", l.Service, r.N, i+1)
				break
			}
		}
	}
	for _, s := range wire.Services() {
		if have[s] != 1 {
			c.fail(AllThere, "", "%s: there are %d ledgers", s, have[s])
		}
	}
}

func (c *checker) outcomes() map[string]Outcome {
	all := map[string]Outcome{}
	for _, o := range c.in.Outcomes {
		if _, twice := all[o.Order]; twice {
			c.fail(Settled, o.Order, "it has two outcomes")
		}
		if _, placed := c.placed[o.Order]; !placed {
			c.fail(Placed, o.Order, "it has an outcome and is not in the file")
		}
		all[o.Order] = o
	}
	return all
}

// add sums up what a row did for its order.
func (c *checker) add(s wire.Service, r wire.Row) {
	sign := int64(0)
	switch r.Kind {
	case s.Forward():
		sign = 1
	case s.Undo():
		sign = -1
	default:
		return
	}
	t, ok := c.sums[r.Order]
	if !ok {
		c.fail(Placed, r.Order, "%s did a %s for it", s, r.Kind)
		return
	}
	switch s {
	case wire.Payments:
		if want := c.placed[r.Order].Total(); r.Cents != want {
			c.fail(Money, r.Order, "the %s was over %s, the order's total is %s", r.Kind, euros(r.Cents), euros(want))
		}
		t.add(sign, r.Cents)
	case wire.Stock:
		t.reserved[r.SKU] += sign * r.Quantity
	case wire.Shipping:
		t.parcels += sign
	case wire.Mail:
		t.mails += sign
	}
}

// order holds what was done for an order against what it should have been.
func (c *checker) order(o orders.Order, out Outcome) {
	t := c.sums[o.ID]
	shipped := t.parcels > 0
	switch {
	case out.Status == "":
		c.fail(Settled, o.ID, "the engine has no outcome")
	case out.Broken:
		c.fail(Settled, o.ID, "the engine gave up: %s", describe(out))
	case (out.Status == Completed) != shipped:
		c.fail(Parcels, o.ID, "the engine says %s, and %d parcels are on their way", out.Status, t.parcels)
	}
	if t.parcels < 0 || t.parcels > 1 {
		c.fail(Parcels, o.ID, "%d parcels are on their way", t.parcels)
	}
	var money, mails int64
	goods := map[string]int64{}
	if shipped {
		money, mails = o.Total(), 1
		for _, it := range o.Items {
			goods[it.SKU] += it.Quantity
		}
	}
	if got := t.charged - t.refunded; got != money {
		c.fail(Money, o.ID, "%s charged and %s refunded, %s should be left", euros(t.charged), euros(t.refunded), euros(money))
	}
	if t.mails != mails {
		c.fail(OneMail, o.ID, "%d mails were sent and not %d", t.mails, mails)
	}
	for _, sku := range slices.Sorted(maps.Keys(both(goods, t.reserved))) {
		if got, want := t.reserved[sku], goods[sku]; got != want {
			c.fail(Goods, o.ID, "%d pieces of %s are off the shelf and not %d", got, sku, want)
		}
	}
}

// totals checks the sums again over everything, whatever order a row names.
func (c *checker) totals() {
	t := total(c.in)
	if t.charged != t.shipped+t.refunded {
		c.fail(Money, "", "%s charged, %s shipped and %s refunded", euros(t.charged), euros(t.shipped), euros(t.refunded))
	}
}

// shelves holds stock's shelves against its own lines and against the parcels.
func (c *checker) shelves() {
	initial, sold, moved := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, s := range c.in.File.Stock {
		initial[s.SKU] = s.Quantity
	}
	for _, o := range c.in.File.Orders {
		if c.sums[o.ID].parcels > 0 {
			for _, it := range o.Items {
				sold[it.SKU] += it.Quantity
			}
		}
	}
	shelves := map[string]wire.Shelf{}
	for _, l := range c.in.Ledgers {
		if l.Service != wire.Stock {
			continue
		}
		for _, s := range l.Shelves {
			shelves[s.SKU] = s
		}
		for _, r := range l.Rows {
			switch r.Kind {
			case wire.Reserve:
				moved[r.SKU] += r.Quantity
			case wire.Release:
				moved[r.SKU] -= r.Quantity
			}
		}
	}
	for _, sku := range slices.Sorted(maps.Keys(both(both(initial, sold), moved))) {
		s := shelves[sku]
		if s.Initial != initial[sku] {
			c.fail(Goods, "", "%s: %d pieces at the start, the file says %d", sku, s.Initial, initial[sku])
		}
		if s.Left+sold[sku] != s.Initial {
			c.fail(Goods, "", "%s: %d pieces at the start, %d left and %d sold", sku, s.Initial, s.Left, sold[sku])
		}
		if s.Initial-s.Left != moved[sku] {
			c.fail(Goods, "", "%s: %d pieces are off the shelf, by the ledger's lines %d", sku, s.Initial-s.Left, moved[sku])
		}
	}
}

func describe(o Outcome) string {
	s := cmp.Or(o.Status, "no outcome")
	if o.Undo != "" {
		s += ", " + o.Undo
	}
	if o.Reason != "" {
		s += ": " + o.Reason
	}
	return s
}

func both(a, b map[string]int64) map[string]int64 {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
