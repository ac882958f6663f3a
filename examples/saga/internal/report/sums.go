package report

import (
	"fmt"
	"strconv"

	"github.com/engined/engined/examples/saga/internal/wire"
)

// sums are what the services did for one order.
type sums struct {
	charged, refunded int64            // cents
	parcels, mails    int64            // what was undone taken off
	reserved          map[string]int64 // pieces by article, likewise
}

func newSums() *sums { return &sums{reserved: map[string]int64{}} }

func (t *sums) add(sign, cents int64) {
	if sign > 0 {
		t.charged += cents
	} else {
		t.refunded += cents
	}
}

// grand are the totals of a run.
type grand struct {
	charged, refunded, shipped         int64 // cents
	initial, left, sold                int64 // pieces
	parcelsSent, parcelsBack, mailsOut int64
}

// total sums up the ledgers. What is shipped is what is in the parcels that are
// on their way, at the prices of their orders.
func total(in Input) grand {
	var g grand
	parcels := map[string]int64{}
	for _, l := range in.Ledgers {
		for _, r := range l.Rows {
			g.row(l.Service, r, parcels)
		}
		for _, s := range l.Shelves {
			g.initial += s.Initial
			g.left += s.Left
		}
	}
	for _, o := range in.File.Orders {
		n := parcels[o.ID]
		g.shipped += n * o.Total()
		for _, it := range o.Items {
			g.sold += n * it.Quantity
		}
	}
	return g
}

func (g *grand) row(s wire.Service, r wire.Row, parcels map[string]int64) {
	switch {
	case s == wire.Payments && r.Kind == wire.Charge:
		g.charged += r.Cents
	case s == wire.Payments && r.Kind == wire.Refund:
		g.refunded += r.Cents
	case s == wire.Shipping && r.Kind == wire.Ship:
		g.parcelsSent++
		parcels[r.Order]++
	case s == wire.Shipping && r.Kind == wire.Cancel:
		g.parcelsBack++
		parcels[r.Order]--
	case s == wire.Mail && r.Kind == wire.Send:
		g.mailsOut++
	}
}

// euros writes cents for people: 1,234.50 EUR.
func euros(cents int64) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	return fmt.Sprintf("%s%s.%02d EUR", sign, grouped(cents/100), cents%100)
}

// grouped writes a number that is not negative in groups of three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
