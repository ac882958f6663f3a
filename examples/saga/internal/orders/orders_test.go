package orders_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/engined/engined/examples/saga/internal/orders"
)

func shipped(t *testing.T) *orders.File {
	t.Helper()
	f, err := orders.Load("")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTheShippedOrdersMeetEveryRefusal(t *testing.T) {
	f := shipped(t)
	if len(f.Orders) < 48 {
		t.Errorf("only %d orders", len(f.Orders))
	}
	left := map[string]int64{}
	for _, s := range f.Stock {
		left[s.SKU] = s.Quantity
	}
	var declined, unknown, few, far int
	for _, o := range f.Orders {
		if n := len(o.Items); n < 2 || n > 4 {
			t.Errorf("%s has %d items", o.ID, n)
		}
		if strings.HasPrefix(o.Card, "4000000000") {
			declined++
		}
		switch o.Address.Country {
		case "PN", "FK", "AQ", "SH":
			far++
		}
		for _, it := range o.Items {
			if it.Order != o.ID {
				t.Errorf("%s: item %s belongs to %q", o.ID, it.SKU, it.Order)
			}
			initial, known := left[it.SKU]
			switch {
			case !known:
				unknown++
			case it.Quantity > 70:
				few++
				if it.Quantity <= initial {
					t.Errorf("%s: there are %d of %s", o.ID, initial, it.SKU)
				}
			default:
				left[it.SKU] -= it.Quantity
			}
		}
	}
	if declined < 3 || unknown < 3 || few < 3 || far < 3 {
		t.Errorf("%d cards declined, %d articles unknown, %d too few, %d addresses too far", declined, unknown, few, far)
	}
	// Nothing else runs out: which order fails is decided by the file and the seed,
	// not by who comes first.
	for sku, n := range left {
		if n < 0 {
			t.Errorf("%d pieces of %s are missing", -n, sku)
		}
	}
}

func TestAFileIsLoadedFromItsPath(t *testing.T) {
	data, err := json.Marshal(shipped(t)) // items with their order's id are fine
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mine.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := orders.Load(path)
	if err != nil || len(f.Orders) != len(shipped(t).Orders) {
		t.Error(err)
	}
	if _, err := orders.Load(path + ".not"); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

func TestATotalIsTheSumOfItsLines(t *testing.T) {
	o := orders.Order{Items: []orders.Item{{Quantity: 2, Cents: 150}, {Quantity: 1, Cents: 99}}}
	if o.Total() != 399 {
		t.Error(o.Total())
	}
}

func TestABadFileIsRefusedWithTheFieldOrLine(t *testing.T) {
	edit := func(change func(*orders.File)) string {
		f := shipped(t)
		change(f)
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":           {"", "bad.json:1:1: the file ends"},
		"cut off":         {"{\n \"stock\": [", "bad.json:2:12: the file ends"},
		"no JSON":         {"{\n  stock: []}", "bad.json:2:3: "},
		"wrong type":      {"{\n\n \"orders\": 5}", "bad.json:3:"},
		"wrong type deep": {`{"orders":[{"items":[{"cents":"5"}]}]}`, "orders.items.cents: a JSON string cannot be a int64"},
		"a fraction":      {`{"orders":[{"items":[{"cents":5.5}]}]}`, "orders.items.cents: a JSON number 5.5 cannot be a int64"},
		"unknown field":   {"{\"stock\":[],\n\"odrers\":[]}", `bad.json:2:`},
		"two values":      {edit(func(*orders.File) {}) + "\n{}", "something follows"},
		"null":            {"null", "orders: there are 0"},
		"few orders":      {edit(func(f *orders.File) { f.Orders = f.Orders[:orders.Min-1] }), "orders: there are 39; a run takes 40"},
		"no stock":        {edit(func(f *orders.File) { f.Stock = nil }), "bad.json: stock: "},
		"stock twice":     {edit(func(f *orders.File) { f.Stock[3].SKU = f.Stock[1].SKU }), "stock[3].sku: "},
		"stock below 0":   {edit(func(f *orders.File) { f.Stock[3].Quantity = -1 }), "stock[3].quantity: -1 is not between"},
		"id twice":        {edit(func(f *orders.File) { f.Orders[5].ID, f.Orders[5].Items = f.Orders[2].ID, f.Orders[2].Items }), "orders[5].id: "},
		"no id":           {edit(func(f *orders.File) { f.Orders[5].ID = "" }), "orders[5].id: it is missing"},
		"long text":       {edit(func(f *orders.File) { f.Orders[5].Customer = strings.Repeat("x", 201) }), "orders[5].customer: it has 201 bytes"},
		"control":         {edit(func(f *orders.File) { f.Orders[5].Card = "1\n2" }), "orders[5].card: it holds control"},
		"no card":         {edit(func(f *orders.File) { f.Orders[5].Card = "" }), "orders[5].card: it is missing"},
		"bad e-mail":      {edit(func(f *orders.File) { f.Orders[5].Email = "nobody" }), "orders[5].email: "},
		"no street":       {edit(func(f *orders.File) { f.Orders[5].Address.Street = "" }), "orders[5].address.street: "},
		"bad country":     {edit(func(f *orders.File) { f.Orders[5].Address.Country = "Austria" }), "orders[5].address.country: "},
		"no items":        {edit(func(f *orders.File) { f.Orders[5].Items = nil }), "orders[5].items: there are 0"},
		"item twice":      {edit(func(f *orders.File) { f.Orders[5].Items[1].SKU = f.Orders[5].Items[0].SKU }), "orders[5].items[1].sku: "},
		"item of another": {edit(func(f *orders.File) { f.Orders[5].Items[0].Order = "x" }), "orders[5].items[0].order: "},
		"no quantity":     {edit(func(f *orders.File) { f.Orders[5].Items[0].Quantity = 0 }), "orders[5].items[0].quantity: 0 is not between"},
		"free":            {edit(func(f *orders.File) { f.Orders[5].Items[0].Cents = 0 }), "orders[5].items[0].cents: 0 is not between"},
		"too dear":        {edit(func(f *orders.File) { f.Orders[5].Items[0].Cents = 1 << 60 }), "orders[5].items[0].cents: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := orders.Parse("bad.json", []byte(c.text))
			if _, ok := errors.AsType[*orders.FileError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
}

func TestEveryFaultOfAFileIsTold(t *testing.T) {
	f := shipped(t)
	f.Orders[1].Card, f.Orders[2].Items[0].Cents = "", 0
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	_, err = orders.Parse("bad.json", data)
	if err == nil || !strings.Contains(err.Error(), "orders[1].card") || !strings.Contains(err.Error(), "orders[2].items[0].cents") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"stock":[{"sku":"A","name":"A","quantity":1}],"orders":[]}`))
	f.Add([]byte("{\n\"x\""))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := orders.Parse("fuzz", data)
		if _, ok := errors.AsType[*orders.FileError](err); err != nil && !ok {
			t.Errorf("%T %v", err, err)
		}
		if err == nil && len(file.Orders) < orders.Min {
			t.Error("a bad file was taken")
		}
	})
}
