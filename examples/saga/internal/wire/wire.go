// Package wire is the HTTP interface of the four services: their names, their
// endpoints and headers, and the JSON that goes both ways.
//
// It owns words only. It must not know how a service keeps its promises nor who
// calls it.
package wire

// Service names one of the four services.
type Service string

// The services.
const (
	Payments Service = "payments"
	Stock    Service = "stock"
	Shipping Service = "shipping"
	Mail     Service = "mail"
)

// Services are all of them, in the order in which an order meets them.
func Services() []Service { return []Service{Payments, Stock, Shipping, Mail} }

// The endpoints. Each is called by POST at "/" + its name.
const (
	Charge  = "charge"
	Refund  = "refund"
	Reserve = "reserve"
	Release = "release"
	Ship    = "ship"
	Cancel  = "cancel"
	Send    = "send"
)

// Forward is the endpoint by which s does its work.
func (s Service) Forward() string {
	return map[Service]string{Payments: Charge, Stock: Reserve, Shipping: Ship, Mail: Send}[s]
}

// Undo is the endpoint by which s undoes what Forward did, or "": a mail that is
// sent is sent.
func (s Service) Undo() string {
	return map[Service]string{Payments: Refund, Stock: Release, Shipping: Cancel}[s]
}

// Paths beside the endpoints.
const (
	// LedgerPath answers GET with all that the service has written down.
	LedgerPath = "/ledger"
	// HealthPath answers GET with 200 when the service takes calls.
	HealthPath = "/healthz"
	// SettlePath takes POST: what the network still holds back arrives now.
	SettlePath = "/settle"
)

// The headers that every call to an endpoint carries.
const (
	// KeyHeader is the idempotency key, 1 to MaxKey bytes.
	KeyHeader = "Idempotency-Key"
	// FenceHeader is a decimal int64, not negative, that grows with each delivery.
	FenceHeader = "Engined-Fence"
)

// MaxKey is the longest idempotency key in bytes, MaxBody the longest body.
const (
	MaxKey  = 200
	MaxBody = 1 << 20
)

// ChargeRequest asks payments to charge a card.
type ChargeRequest struct {
	Order string `json:"order"`
	Card  string `json:"card"`
	Cents int64  `json:"cents"`
}

// ReserveRequest asks stock to take goods off the shelf for an order.
type ReserveRequest struct {
	Order    string `json:"order"`
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// ShipRequest asks shipping to send a parcel.
type ShipRequest struct {
	Order    string   `json:"order"`
	Name     string   `json:"name"`
	Street   string   `json:"street"`
	City     string   `json:"city"`
	Postcode string   `json:"postcode"`
	Country  string   `json:"country"`
	Slips    []string `json:"slips"`
}

// SendRequest asks mail to send a mail.
type SendRequest struct {
	Order   string `json:"order"`
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// UndoRequest asks a service to undo what was asked for under ForwardKey if it
// was done, and else to make it impossible for ever.
type UndoRequest struct {
	Order      string  `json:"order"`
	ForwardKey string  `json:"forward_key"`
	Outcome    Outcome `json:"outcome"`
}

// Outcome is what the caller of an undo knows of the forward call.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"
	Unknown Outcome = "unknown"
)

// Answer is what a service says to a call that it did.
type Answer struct {
	// ID names the payment, slip, parcel, mail or undo.
	ID string `json:"id"`
	// Did is what was done: the endpoint's name, or Sealed.
	Did string `json:"did"`
}

// Sealed in an Answer says that there was nothing to undo, and never will be.
const Sealed = "seal"

// Problem is the body of every answer that is no Answer.
type Problem struct {
	Code   Code   `json:"code"`
	Detail string `json:"detail"`
}

// Code says why a call was refused.
type Code string

// The codes, with the HTTP status that carries each.
const (
	// 403: the service will not, for a reason of its trade. The same answer comes
	// again for the same key.
	Declined   Code = "declined"
	OutOfStock Code = "out-of-stock"
	BadAddress Code = "bad-address"

	// BadCall (400) is a call that is no call: a header or the body is wrong.
	BadCall Code = "bad-call"
	// OtherEndpoint (409): the key was used on another endpoint.
	OtherEndpoint Code = "other-endpoint"
	// IsSealed (410): the call was undone or sealed, and comes too late.
	IsSealed Code = "sealed"
	// OldFence (412): a delivery with a higher fence was here before.
	OldFence Code = "old-fence"
	// OtherBody (422): the key was used for another request.
	OtherBody Code = "other-body"
	// Internal (500): the service has failed; try again.
	Internal Code = "internal"
)

// Status is the HTTP status that carries c.
func (c Code) Status() int {
	switch c {
	case Declined, OutOfStock, BadAddress:
		return 403
	case BadCall:
		return 400
	case OtherEndpoint:
		return 409
	case IsSealed:
		return 410
	case OldFence:
		return 412
	case OtherBody:
		return 422
	default:
		return 500
	}
}
