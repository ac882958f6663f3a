// Package shop is the activities of the example: what its workflow asks the four
// services for.
//
// It owns the client's side of their HTTP, and which answer is an error of what
// kind: a refusal of the trade is final, since the service says that it did
// nothing; everything else may be tried again. It must not know in which order
// the activities are called.
package shop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/wire"
	"github.com/engined/engined/sdk/failure"
	"github.com/engined/engined/sdk/saga"
)

// What the services refuse for good.
var (
	ErrDeclined   = errors.New("the card was declined")
	ErrOutOfStock = errors.New("out of stock")
	ErrAddress    = errors.New("nobody ships to that address")
)

func init() {
	// By these names the workflow and the client find the errors again.
	failure.Register("shop.Declined", ErrDeclined)
	failure.Register("shop.OutOfStock", ErrOutOfStock)
	failure.Register("shop.Address", ErrAddress)
	failure.RegisterType[*RefusedError]("shop.Refused")
}

// Shop calls the services. Its exported methods are activities. Make it with New.
type Shop struct {
	urls   map[wire.Service]string
	client *http.Client
}

// New returns a shop whose services listen at the URLs that url gives. A call
// that takes longer than timeout is given up.
func New(url func(wire.Service) string, timeout time.Duration) *Shop {
	s := &Shop{urls: map[wire.Service]string{}, client: &http.Client{
		Timeout: timeout,
		// With connections kept alive, net/http repeats a call with an
		// Idempotency-Key by itself when a connection breaks. That would be right, and
		// hide from the engine half of the faults that the example is about.
		Transport: &http.Transport{DisableKeepAlives: true},
	}}
	for _, service := range wire.Services() {
		s.urls[service] = url(service)
	}
	return s
}

// Payment is a charge that was made.
type Payment struct {
	ID    string `json:"id"`
	Cents int64  `json:"cents"`
}

// Slip stands for goods that are off the shelf.
type Slip struct {
	ID   string      `json:"id"`
	Item orders.Item `json:"item"`
}

// Parcel is what is to be shipped.
type Parcel struct {
	Order orders.Order `json:"order"`
	Slips []Slip       `json:"slips"`
}

// Shipment is a parcel on its way.
type Shipment struct {
	Tracking string `json:"tracking"`
}

// Charge charges the order's card with its total. ErrDeclined is final.
func (s *Shop) Charge(ctx context.Context, o orders.Order) (Payment, error) {
	a, err := s.call(ctx, wire.Payments, wire.Charge, wire.ChargeRequest{Order: o.ID, Card: o.Card, Cents: o.Total()})
	if err != nil {
		return Payment{}, fmt.Errorf("charge order %s: %w", o.ID, err)
	}
	return Payment{ID: a.ID, Cents: o.Total()}, nil
}

// Refund undoes Charge.
func (s *Shop) Refund(ctx context.Context, u saga.Undo[orders.Order, Payment]) error {
	return s.undo(ctx, wire.Payments, undoRequest(u.Input.ID, u.ForwardKey, u.Outcome))
}

// Reserve takes an item of an order off the shelf. ErrOutOfStock is final.
func (s *Shop) Reserve(ctx context.Context, it orders.Item) (Slip, error) {
	a, err := s.call(ctx, wire.Stock, wire.Reserve, wire.ReserveRequest{Order: it.Order, SKU: it.SKU, Quantity: it.Quantity})
	if err != nil {
		return Slip{}, fmt.Errorf("reserve %d %s for order %s: %w", it.Quantity, it.SKU, it.Order, err)
	}
	return Slip{ID: a.ID, Item: it}, nil
}

// Release undoes Reserve.
func (s *Shop) Release(ctx context.Context, u saga.Undo[orders.Item, Slip]) error {
	return s.undo(ctx, wire.Stock, undoRequest(u.Input.Order, u.ForwardKey, u.Outcome))
}

// Ship sends a parcel. ErrAddress is final.
func (s *Shop) Ship(ctx context.Context, p Parcel) (Shipment, error) {
	o := p.Order
	r := wire.ShipRequest{Order: o.ID, Name: o.Customer, Street: o.Address.Street, City: o.Address.City,
		Postcode: o.Address.Postcode, Country: o.Address.Country}
	for _, slip := range p.Slips {
		r.Slips = append(r.Slips, slip.ID)
	}
	a, err := s.call(ctx, wire.Shipping, wire.Ship, r)
	if err != nil {
		return Shipment{}, fmt.Errorf("ship order %s: %w", o.ID, err)
	}
	return Shipment{Tracking: a.ID}, nil
}

// Cancel undoes Ship: a parcel of which nobody knows whether it left must not
// leave later, when its order has been given up and refunded.
func (s *Shop) Cancel(ctx context.Context, u saga.Undo[Parcel, Shipment]) error {
	return s.undo(ctx, wire.Shipping, undoRequest(u.Input.Order.ID, u.ForwardKey, u.Outcome))
}

// Mail tells the customer that the order is on its way. It cannot be undone.
func (s *Shop) Mail(ctx context.Context, o orders.Order) error {
	_, err := s.call(ctx, wire.Mail, wire.Send, wire.SendRequest{
		Order: o.ID, To: o.Email, Subject: "Your order " + o.ID,
		Text: fmt.Sprintf("Dear %s,\n\nyour order %s over %s is on its way to %s.\n", o.Customer, o.ID, euros(o.Total()), o.Address.City),
	})
	if err != nil {
		return fmt.Errorf("mail about order %s: %w", o.ID, err)
	}
	return nil
}

func (s *Shop) undo(ctx context.Context, service wire.Service, r wire.UndoRequest) error {
	if _, err := s.call(ctx, service, service.Undo(), r); err != nil {
		return fmt.Errorf("%s of order %s (step %s was %s): %w", service.Undo(), r.Order, r.ForwardKey, r.Outcome, err)
	}
	return nil
}

func undoRequest(order, forward string, known saga.Outcome) wire.UndoRequest {
	r := wire.UndoRequest{Order: order, ForwardKey: forward, Outcome: wire.Unknown}
	if known == saga.Done {
		r.Outcome = wire.Done
	}
	return r
}

func euros(cents int64) string { return fmt.Sprintf("%d.%02d EUR", cents/100, cents%100) }
