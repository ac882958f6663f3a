package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/engined/engined/examples/saga/internal/wire"
)

// Call is one arrival of a call at a service.
type Call struct {
	Endpoint string
	Key      string
	Fence    int64
	Body     []byte

	ask ask
}

// ask is what a call wants, read from its body.
type ask struct {
	order    string
	cents    int64
	sku      string
	quantity int64
	// digest tells two requests apart.
	digest string
	// refusal is the trade's, when the request alone decides it.
	refusal *wire.Problem
	undo    *wire.UndoRequest
}

// BadCallError says what is wrong with a call that is none.
type BadCallError struct{ Why string }

func (e *BadCallError) Error() string { return "bad call: " + e.Why }

// NewCall reads a call. The error is a *BadCallError.
func (l *Ledger) NewCall(endpoint, key string, fence int64, body []byte) (*Call, error) {
	if len(key) == 0 || len(key) > wire.MaxKey {
		return nil, &BadCallError{fmt.Sprintf("the key has %d bytes, it must have 1 to %d", len(key), wire.MaxKey)}
	}
	if fence < 0 {
		return nil, &BadCallError{fmt.Sprintf("the fence is %d, below zero", fence)}
	}
	a, err := l.read(endpoint, body)
	if err != nil {
		return nil, &BadCallError{err.Error()}
	}
	if a.order == "" {
		return nil, &BadCallError{"no order is named"}
	}
	if a.undo != nil && a.undo.ForwardKey == key {
		return nil, &BadCallError{"an undo has a key of its own"}
	}
	return &Call{Endpoint: endpoint, Key: key, Fence: fence, Body: body, ask: a}, nil
}

func (l *Ledger) read(endpoint string, body []byte) (ask, error) {
	if endpoint == l.service.Undo() && endpoint != "" {
		return readUndo(body)
	}
	if endpoint != l.service.Forward() {
		return ask{}, fmt.Errorf("%s has no endpoint %q", l.service, endpoint)
	}
	switch l.service {
	case wire.Payments:
		return readCharge(body)
	case wire.Stock:
		return l.readReserve(body)
	case wire.Shipping:
		return readShip(body)
	default:
		return readSend(body)
	}
}

// decode reads a request strictly, and returns the digest of what it means (not
// of its bytes: blanks may differ).
func decode[T any](body []byte) (v T, digest string, err error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return v, "", fmt.Errorf("the body is no %T: %w", v, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return v, "", errors.New("something follows the body's JSON")
	}
	digest, err = digestOf(v)
	return v, digest, err
}

func digestOf(v any) (string, error) {
	canonical, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// Cards that the networks have made known to be declined.
var declined = map[string]string{
	"4000000000000002": "the card is declined by its bank",
	"4000000000009995": "the card has insufficient funds",
}

func readCharge(body []byte) (ask, error) {
	r, digest, err := decode[wire.ChargeRequest](body)
	if err != nil {
		return ask{}, err
	}
	if r.Cents <= 0 || r.Card == "" {
		return ask{}, errors.New("a charge needs a card and an amount above zero")
	}
	a := ask{order: r.Order, cents: r.Cents, digest: digest}
	if why, bad := declined[r.Card]; bad {
		a.refusal = &wire.Problem{Code: wire.Declined, Detail: why}
	}
	return a, nil
}

func (l *Ledger) readReserve(body []byte) (ask, error) {
	r, digest, err := decode[wire.ReserveRequest](body)
	if err != nil {
		return ask{}, err
	}
	if r.Quantity <= 0 || r.SKU == "" {
		return ask{}, errors.New("a reservation needs an article and a quantity above zero")
	}
	a := ask{order: r.Order, sku: r.SKU, quantity: r.Quantity, digest: digest}
	switch initial, known := l.shelves[r.SKU]; {
	case !known:
		a.refusal = &wire.Problem{Code: wire.OutOfStock, Detail: fmt.Sprintf("there is no article %s", r.SKU)}
	case r.Quantity > initial:
		a.refusal = &wire.Problem{Code: wire.OutOfStock, Detail: fmt.Sprintf("there were never %d pieces of %s", r.Quantity, r.SKU)}
	}
	return a, nil
}

// served are the countries that the carrier goes to.
var served = []string{"AT", "BE", "CH", "CZ", "DE", "DK", "ES", "FI", "FR", "GB", "IE", "IT", "LU", "NL", "NO", "PL", "PT", "SE"}

func readShip(body []byte) (ask, error) {
	r, digest, err := decode[wire.ShipRequest](body)
	if err != nil {
		return ask{}, err
	}
	a := ask{order: r.Order, digest: digest}
	if !slices.Contains(served, r.Country) {
		a.refusal = &wire.Problem{Code: wire.BadAddress, Detail: fmt.Sprintf("the carrier does not go to %s (%s)", r.City, r.Country)}
	}
	return a, nil
}

func readSend(body []byte) (ask, error) {
	r, digest, err := decode[wire.SendRequest](body)
	if err != nil {
		return ask{}, err
	}
	if r.To == "" {
		return ask{}, errors.New("a mail needs somebody to go to")
	}
	return ask{order: r.Order, digest: digest}, nil
}

func readUndo(body []byte) (ask, error) {
	r, _, err := decode[wire.UndoRequest](body)
	if err != nil {
		return ask{}, err
	}
	if r.Outcome != wire.Done && r.Outcome != wire.Unknown {
		return ask{}, fmt.Errorf("the outcome %q is neither %q nor %q", r.Outcome, wire.Done, wire.Unknown)
	}
	if len(r.ForwardKey) == 0 || len(r.ForwardKey) > wire.MaxKey {
		return ask{}, fmt.Errorf("the forward key has %d bytes, it must have 1 to %d", len(r.ForwardKey), wire.MaxKey)
	}
	// What the caller knows is no part of what it asks for: an answer that came
	// late turns an unknown outcome into a done one, under the same key.
	asked := r
	asked.Outcome = ""
	digest, err := digestOf(asked)
	return ask{order: r.Order, undo: &r, digest: digest}, err
}
