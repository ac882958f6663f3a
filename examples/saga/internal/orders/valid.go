package orders

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// validation collects what is wrong with a file.
type validation struct {
	name string
	errs []error
}

func validate(name string, f *File) error {
	v := &validation{name: name}
	v.stock(f.Stock)
	if n := len(f.Orders); n < Min || n > maxOrders {
		v.fail("orders", "there are %d; a run takes %d to %d", n, Min, maxOrders)
	}
	ids := map[string]int{}
	for i, o := range f.Orders {
		at := fmt.Sprintf("orders[%d]", i)
		v.order(at, o)
		if first, twice := ids[o.ID]; twice {
			v.fail(at+".id", "%q is the id of orders[%d], too", o.ID, first)
		} else {
			ids[o.ID] = i
		}
	}
	return errors.Join(v.errs...)
}

func (v *validation) fail(field, format string, args ...any) {
	v.errs = append(v.errs, &FileError{Name: v.name, Field: field, Why: fmt.Sprintf(format, args...)})
}

func (v *validation) stock(all []Stock) {
	if len(all) == 0 {
		v.fail("stock", "no article is in stock")
	}
	seen := map[string]int{}
	for i, s := range all {
		at := fmt.Sprintf("stock[%d]", i)
		v.text(at+".sku", s.SKU)
		v.text(at+".name", s.Name)
		v.between(at+".quantity", s.Quantity, 0, maxQuantity)
		if first, twice := seen[s.SKU]; twice {
			v.fail(at+".sku", "%q is stock[%d], too", s.SKU, first)
		} else {
			seen[s.SKU] = i
		}
	}
}

func (v *validation) order(at string, o Order) {
	for _, f := range []struct{ name, value string }{
		{"id", o.ID}, {"customer", o.Customer}, {"email", o.Email}, {"card", o.Card},
		{"address.street", o.Address.Street}, {"address.city", o.Address.City},
		{"address.postcode", o.Address.Postcode}, {"address.country", o.Address.Country},
	} {
		v.text(at+"."+f.name, f.value)
	}
	if o.Email != "" && strings.Count(o.Email, "@") != 1 {
		v.fail(at+".email", "%q is no e-mail address", o.Email)
	}
	if c := o.Address.Country; c != "" && (len(c) != 2 || c != strings.ToUpper(c)) {
		v.fail(at+".address.country", "%q is no country code of two capital letters", c)
	}
	if n := len(o.Items); n == 0 || n > maxItems {
		v.fail(at+".items", "there are %d; an order has 1 to %d", n, maxItems)
	}
	skus := map[string]bool{}
	for i, it := range o.Items {
		v.item(fmt.Sprintf("%s.items[%d]", at, i), o, it, skus)
	}
}

func (v *validation) item(at string, o Order, it Item, skus map[string]bool) {
	v.text(at+".sku", it.SKU)
	v.text(at+".name", it.Name)
	v.between(at+".quantity", it.Quantity, 1, maxQuantity)
	v.between(at+".cents", it.Cents, 1, maxCents)
	if it.Order != "" && it.Order != o.ID {
		v.fail(at+".order", "%q is not the order's id %q", it.Order, o.ID)
	}
	if skus[it.SKU] {
		v.fail(at+".sku", "%q is in the order twice: raise its quantity", it.SKU)
	}
	skus[it.SKU] = true
}

func (v *validation) text(at, s string) {
	switch {
	case s == "":
		v.fail(at, "it is missing or empty")
	case len(s) > maxText:
		v.fail(at, "it has %d bytes, the limit is %d", len(s), maxText)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }):
		v.fail(at, "it holds control characters")
	}
}

func (v *validation) between(at string, n, low, high int64) {
	if n < low || n > high {
		v.fail(at, "%d is not between %d and %d", n, low, high)
	}
}
