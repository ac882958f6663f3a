package wire

import "time"

// Ledger is all that a service has written down: the answer of LedgerPath.
type Ledger struct {
	Service Service `json:"service"`
	// Starts counts the processes that have served from this ledger.
	Starts int64 `json:"starts"`
	// Held counts the calls that the network still holds back.
	Held   int64   `json:"held"`
	Rows   []Row   `json:"rows"`
	Faults []Fault `json:"faults"`
	// Shelves are what stock has left; empty elsewhere.
	Shelves []Shelf `json:"shelves,omitempty"`
}

// Row is one line of a ledger. They are numbered in the order of commits.
type Row struct {
	N    int64     `json:"n"`
	Time time.Time `json:"time"`
	// Kind is the name of the endpoint for what was done by it, and else one of
	// RowSeal, RowRefused and RowRepeat.
	Kind string `json:"kind"`
	// Key is the call's idempotency key, ForwardKey that of the call that an undo
	// is about.
	Key        string `json:"key"`
	ForwardKey string `json:"forward_key,omitempty"`
	Fence      int64  `json:"fence"`
	Order      string `json:"order"`
	// What an effect moved: money in cents, or pieces of an article.
	Cents    int64  `json:"cents,omitempty"`
	SKU      string `json:"sku,omitempty"`
	Quantity int64  `json:"quantity,omitempty"`
	// Code says why the call was refused.
	Code Code `json:"code,omitempty"`
	// Claim is what an undo said of the forward call.
	Claim Outcome `json:"claim,omitempty"`
}

// The kinds of rows that are no effects.
const (
	// RowSeal: a key was made impossible; nothing had been done under it.
	RowSeal = "seal"
	// RowRefused: a call was refused, see Code.
	RowRefused = "refused"
	// RowRepeat: a call was answered with the answer that it had before.
	RowRepeat = "repeat"
)

// Fault is a fault that has happened.
type Fault struct {
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"`
	Endpoint string    `json:"endpoint"`
	Key      string    `json:"key"`
	// Try is the number of the call among those under its key, from 1.
	Try int64 `json:"try"`
}

// Shelf is what is left of an article, and what there was at the start.
type Shelf struct {
	SKU     string `json:"sku"`
	Initial int64  `json:"initial"`
	Left    int64  `json:"left"`
}
