package fn_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/engined/engined/internal/fn"
)

func PlaceOrder(context.Context, int) (int, error) { return 0, nil }

func func1() {}

type Shop struct{}

func (*Shop) Charge(context.Context, int) (int, error) { return 0, nil }
func (Shop) Ship(context.Context, int) error           { return nil }

type Outlet struct{ *Shop }

type Shipper interface {
	Ship(context.Context, int) error
}

type Box[T any] struct{}

func (*Box[T]) Open(context.Context, T) error { return nil }

func Twice[T any](context.Context, T) error { return nil }

func TestNameOfDeclaredFunctionsAndMethods(t *testing.T) {
	var shop *Shop
	for name, f := range map[string]any{
		"PlaceOrder":  PlaceOrder,
		"func1":       func1,
		"Shop.Charge": shop.Charge,
		"Shop.Ship":   Shop{}.Ship,
		"Repeat":      strings.Repeat, // a package of one element
		"IndexFunc":   strings.IndexFunc,
	} {
		for range 2 { // the second answer comes from the cache
			if got, err := fn.Name(f); got != name || err != nil {
				t.Errorf("Name = %q, %v, want %q", got, err, name)
			}
		}
	}
}

func TestMethodExpressionHasTheNameOfItsMethod(t *testing.T) {
	if got, err := fn.Name((*Shop).Charge); got != "Shop.Charge" || err != nil {
		t.Errorf("Name = %q, %v", got, err)
	}
}

func TestPromotedMethodIsNamedByTheTypeThatDeclaresIt(t *testing.T) {
	if got, err := fn.Name(Outlet{&Shop{}}.Charge); got != "Shop.Charge" || err != nil {
		t.Errorf("Name = %q, %v", got, err)
	}
}

func TestMethodValueOfAnInterfaceIsNamedByTheInterface(t *testing.T) {
	var s Shipper = Shop{}
	if got, err := fn.Name(s.Ship); got != "Shipper.Ship" || err != nil {
		t.Errorf("Name = %q, %v", got, err)
	}
}

var atPackageLevel = func() {}

func TestWhatHasNoStableNameIsRefused(t *testing.T) {
	var nilFunc func()
	n := 0
	for why, fs := range map[string][]any{
		"is a closure": {
			func() {}, func() { n++ }, atPackageLevel,
			func() any { return func() { n++ } }(),
		},
		"is an instance of a generic function or type": {Twice[int], new(Box[string]).Open},
		"is a nil function":                            {nilFunc},
		"is not a function":                            {nil, 42, &Shop{}, "PlaceOrder"},
	} {
		for _, f := range fs {
			name, err := fn.Name(f)
			var ne *fn.NameError
			if !errors.As(err, &ne) {
				t.Errorf("Name(%T) = %q, %v, want a *NameError", f, name, err)
				continue
			}
			if ne.Why != why || !strings.Contains(err.Error(), "give a name by option") {
				t.Errorf("Name(%T): %v, want one that %s and says what to do", f, err, why)
			}
		}
	}
}

func TestRangeOverFuncBodyIsAClosure(t *testing.T) {
	var body any
	for range func(yield func() bool) { body = yield; yield() } {
	}
	if _, err := fn.Name(body); err == nil {
		t.Error("the body of a range over a function got a name")
	}
}

func BenchmarkName(b *testing.B) {
	var shop *Shop
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fn.Name(shop.Charge); err != nil {
			b.Fatal(err)
		}
	}
}
