package shop_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/examples/saga/internal/chaos"
	"github.com/engined/engined/examples/saga/internal/ledger"
	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/service"
	"github.com/engined/engined/examples/saga/internal/shop"
	"github.com/engined/engined/examples/saga/internal/wire"
	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/failure"
	"github.com/engined/engined/sdk/saga"
)

// losing loses every first answer of a key.
type losing struct{}

func (losing) At(c chaos.Call) chaos.Fault {
	if c.Try == 1 {
		return chaos.Fault{Kind: chaos.LoseAnswer}
	}
	return chaos.Fault{}
}

type rig struct {
	*shop.Shop
	t       *testing.T
	ledgers map[wire.Service]*ledger.Ledger
}

// open returns a shop before the four real services.
func open(t *testing.T, plan ledger.Plan) *rig {
	t.Helper()
	r := &rig{t: t, ledgers: map[wire.Service]*ledger.Ledger{}}
	urls := map[wire.Service]string{}
	for _, s := range wire.Services() {
		l, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), s, []wire.Shelf{{SKU: "A", Initial: 5}})
		if err != nil {
			t.Fatal(err)
		}
		srv, err := service.New(t.Context(), s, l, plan, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(srv.Handler())
		t.Cleanup(func() {
			web.Close()
			srv.Close()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		urls[s], r.ledgers[s] = web.URL, l
	}
	r.Shop = shop.New(func(s wire.Service) string { return urls[s] }, time.Minute)
	return r
}

// as is the context of an activity's attempt.
func (r *rig) as(key string, fence int64) context.Context {
	return activity.NewContext(r.t.Context(), activity.Info{Key: key, Fence: fence}, nil)
}

func (r *rig) rows(s wire.Service) []wire.Row {
	r.t.Helper()
	page, err := r.ledgers[s].Page(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return page.Rows
}

func order() orders.Order {
	return orders.Order{
		ID: "o1", Customer: "Ann", Email: "ann@example.com", Card: "4242424242424242",
		Address: orders.Address{Street: "s", City: "Wien", Postcode: "1080", Country: "AT"},
		Items:   []orders.Item{{Order: "o1", SKU: "A", Name: "A", Quantity: 2, Cents: 150}},
	}
}

func TestAStepReachesItsServiceWithKeyAndFence(t *testing.T) {
	r, o := open(t, nil), order()
	payment, err := r.Charge(r.as("c", 11), o)
	if err != nil || payment.ID == "" || payment.Cents != 300 {
		t.Errorf("%+v, %v", payment, err)
	}
	slip, err := r.Reserve(r.as("r", 12), o.Items[0])
	if err != nil || slip.ID == "" || slip.Item != o.Items[0] {
		t.Errorf("%+v, %v", slip, err)
	}
	shipment, err := r.Ship(r.as("s", 13), shop.Parcel{Order: o, Slips: []shop.Slip{slip}})
	if err != nil || shipment.Tracking == "" {
		t.Errorf("%+v, %v", shipment, err)
	}
	if err := r.Mail(r.as("m", 14), o); err != nil {
		t.Error(err)
	}
	for s, want := range map[wire.Service]wire.Row{
		wire.Payments: {Kind: wire.Charge, Key: "c", Fence: 11, Cents: 300},
		wire.Stock:    {Kind: wire.Reserve, Key: "r", Fence: 12, SKU: "A", Quantity: 2},
		wire.Shipping: {Kind: wire.Ship, Key: "s", Fence: 13},
		wire.Mail:     {Kind: wire.Send, Key: "m", Fence: 14},
	} {
		got := r.rows(s)
		want.N, want.Order = 1, "o1"
		if len(got) == 1 {
			want.Time = got[0].Time
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: %+v, want %+v", s, got, want)
		}
	}
}

func TestAnUndoNamesItsStepAndWhatIsKnownOfIt(t *testing.T) {
	for _, known := range []saga.Outcome{saga.Done, saga.Unknown} {
		r, o := open(t, nil), order()
		if _, err := r.Charge(r.as("c", 1), o); err != nil {
			t.Fatal(err)
		}
		// Nobody has reserved or shipped: these are sealed.
		for _, err := range []error{
			r.Refund(r.as("uc", 2), saga.Undo[orders.Order, shop.Payment]{Input: o, Outcome: known, Key: "uc", ForwardKey: "c"}),
			r.Release(r.as("ur", 2), saga.Undo[orders.Item, shop.Slip]{Input: o.Items[0], Outcome: known, Key: "ur", ForwardKey: "r"}),
			r.Cancel(r.as("us", 2), saga.Undo[shop.Parcel, shop.Shipment]{Input: shop.Parcel{Order: o}, Outcome: known, Key: "us", ForwardKey: "s"}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		for s, kind := range map[wire.Service]string{wire.Payments: wire.Refund, wire.Stock: wire.RowSeal, wire.Shipping: wire.RowSeal} {
			rows := r.rows(s)
			last := rows[len(rows)-1]
			if last.Kind != kind || string(last.Claim) != string(known) || last.ForwardKey == "" || last.ForwardKey == last.Key {
				t.Errorf("%s: %+v", s, last)
			}
		}
	}
}

// across carries an error as the engine does.
func across(t *testing.T, err error) error {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	return failure.Decode(failure.Encode(err, codec.Default), codec.Default)
}

func TestATradesRefusalIsFinalAndFoundAgainAcrossTheWire(t *testing.T) {
	if err := failure.Check(); err != nil {
		t.Fatal(err)
	}
	r := open(t, nil)
	declined, far := order(), order()
	declined.Card, far.Address.Country = "4000000000000002", "AQ"
	_, charged := r.Charge(r.as("c", 1), declined)
	_, reserved := r.Reserve(r.as("r", 1), orders.Item{Order: "o1", SKU: "Z", Quantity: 1})
	_, sent := r.Ship(r.as("s", 1), shop.Parcel{Order: far})
	for want, err := range map[error]error{shop.ErrDeclined: charged, shop.ErrOutOfStock: reserved, shop.ErrAddress: sent} {
		got := across(t, err)
		if !errors.Is(got, want) || !failure.IsFinal(got) || !strings.Contains(got.Error(), "o1") {
			t.Errorf("%v, final %v, want %v", got, failure.IsFinal(got), want)
		}
	}
}

func TestEverythingElseMayBeTriedAgain(t *testing.T) {
	r, o := open(t, nil), order()
	if _, err := r.Charge(r.as("c", 5), o); err != nil {
		t.Fatal(err)
	}
	_, fenced := r.Charge(r.as("c", 4), o)
	if err := r.Refund(r.as("u", 6), saga.Undo[orders.Order, shop.Payment]{Input: o, ForwardKey: "c"}); err != nil {
		t.Fatal(err)
	}
	_, sealed := r.Charge(r.as("c", 7), o)
	_, misused := r.Charge(r.as("u", 8), o)
	_, nobody := r.Charge(t.Context(), o) // no attempt, no key
	for want, err := range map[wire.Code]error{wire.OldFence: fenced, wire.IsSealed: sealed, wire.OtherEndpoint: misused, wire.BadCall: nobody} {
		got, ok := errors.AsType[*shop.RefusedError](across(t, err))
		if !ok || got.Code != want || got.Status != want.Status() || failure.IsFinal(err) {
			t.Errorf("%v, final %v, want %s", err, failure.IsFinal(err), want)
		}
	}
}

func TestALostAnswerIsNoAnswerAndNothingIsTriedBehindTheEngine(t *testing.T) {
	r, o := open(t, losing{}), order()
	// The second key would find a connection that the first has left open: of such
	// a one net/http believes that a call with a key may be made again.
	for _, key := range []string{"c", "d"} {
		if _, err := r.Charge(r.as(key, 1), o); err == nil || failure.IsFinal(err) {
			t.Errorf("%s: %v", key, err)
		}
		if _, err := r.Charge(r.as(key, 2), o); err != nil {
			t.Error(err)
		}
	}
	var kinds []string
	for _, row := range r.rows(wire.Payments) {
		kinds = append(kinds, row.Kind)
	}
	if want := []string{wire.Charge, wire.RowRepeat, wire.Charge, wire.RowRepeat}; !slices.Equal(kinds, want) {
		t.Errorf("the ledger has %q, want %q", kinds, want)
	}
}
