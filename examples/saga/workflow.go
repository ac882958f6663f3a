package main

import (
	"time"

	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/shop"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/workflow"
)

// services names the activities; the worker has the one that really calls.
var services *shop.Shop

// patience is how long the example tries before it gives a step up. A real shop
// would take the defaults, which are a hundred times as patient.
var patience = workflow.Retry{Attempts: 20, Base: 50 * time.Millisecond, Cap: 500 * time.Millisecond}

// Receipt is what a customer gets for an order that was shipped.
type Receipt struct {
	Order    string `json:"order"`
	Payment  string `json:"payment"`
	Tracking string `json:"tracking"`
}

// PlaceOrder is the workflow: charge, reserve each item, ship, mail. Whatever
// happens to this process in the middle, another goes on where it was; and if
// the order cannot be shipped, the engine undoes what was done.
func PlaceOrder(ctx workflow.Context, o orders.Order) (Receipt, error) {
	undo := saga.UndoWith(workflow.Retry{Base: 50 * time.Millisecond, Cap: 500 * time.Millisecond})

	payment, err := saga.Do(ctx, services.Charge, o, services.Refund, patience, undo)
	if err != nil {
		return Receipt{}, err // an error undoes what was done, newest first
	}
	slips, err := saga.Map(ctx, services.Reserve, o.Items, services.Release, patience, undo)
	if err != nil {
		return Receipt{}, err
	}
	shipment, err := saga.Do(ctx, services.Ship, shop.Parcel{Order: o, Slips: slips}, services.Cancel, patience, undo)
	if err != nil {
		return Receipt{}, err
	}
	saga.Commit(ctx) // the parcel is on its way: nothing is undone any more

	receipt := Receipt{Order: o.ID, Payment: payment.ID, Tracking: shipment.Tracking}
	return receipt, workflow.Exec(ctx, services.Mail, o, patience)
}
