// Package orders holds what the example's customers want: the orders of a JSON
// file, and the goods on the shelves before the first of them comes.
//
// It owns the file's format and what is wrong with a bad one. It must not know
// what becomes of an order: neither services nor workflows.
package orders

// File is a whole orders file.
type File struct {
	// Stock is what is on the shelves at the start.
	Stock []Stock `json:"stock"`
	// Orders are placed in this order.
	Orders []Order `json:"orders"`
}

// Stock is one article on the shelves.
type Stock struct {
	SKU  string `json:"sku"`
	Name string `json:"name"`
	// Quantity is the number of pieces at the start.
	Quantity int64 `json:"quantity"`
}

// Order is what one customer wants. It is the input of its workflow.
type Order struct {
	ID       string  `json:"id"`
	Customer string  `json:"customer"`
	Email    string  `json:"email"`
	Card     string  `json:"card"`
	Address  Address `json:"address"`
	Items    []Item  `json:"items"`
}

// Address is where the parcel goes.
type Address struct {
	Street   string `json:"street"`
	City     string `json:"city"`
	Postcode string `json:"postcode"`
	// Country is its ISO 3166 code of two letters.
	Country string `json:"country"`
}

// Item is one line of an order.
type Item struct {
	// Order is the id of the order that the line belongs to. In a file it is left
	// out, or is that id.
	Order    string `json:"order,omitempty"`
	SKU      string `json:"sku"`
	Name     string `json:"name"`
	Quantity int64  `json:"quantity"`
	// Cents is the price of one piece.
	Cents int64 `json:"cents"`
}

// Total is the price of the whole order in cents.
func (o Order) Total() int64 {
	var sum int64
	for _, it := range o.Items {
		sum += it.Quantity * it.Cents
	}
	return sum
}
