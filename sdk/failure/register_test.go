package failure

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

type plain struct{ N int }

func (plain) Error() string { return "plain" }

type uncomparable struct{ S []int }

func (uncomparable) Error() string { return "uncomparable" }

func TestRegistrationConflictsAreReported(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	for name, c := range map[string]struct {
		do   func(*registry)
		want string // "" is no conflict
	}{
		"same again":                 {func(r *registry) { r.sentinel("x", a); r.sentinel("x", a) }, ""},
		"two names of one":           {func(r *registry) { r.sentinel("x", a); r.sentinel("y", a) }, ""},
		"other sentinel":             {func(r *registry) { r.sentinel("x", a); r.sentinel("x", b) }, "taken"},
		"type over sentinel":         {func(r *registry) { r.sentinel("x", a); r.typ("x", reflect.TypeFor[plain]()) }, "taken"},
		"same type again":            {func(r *registry) { r.typ("x", reflect.TypeFor[plain]()); r.typ("x", reflect.TypeFor[plain]()) }, ""},
		"interface":                  {func(r *registry) { r.typ("x", reflect.TypeFor[error]()) }, "no type to decode"},
		"nil":                        {func(r *registry) { r.sentinel("x", nil) }, "nil"},
		"uncomparable":               {func(r *registry) { r.sentinel("x", uncomparable{[]int{1}}) }, "RegisterType"},
		"no name":                    {func(r *registry) { r.sentinel("", a) }, "1 to 255 bytes"},
		"name that is taken already": {func(r *registry) { r.sentinel("context.Canceled", a) }, "taken"},
		"long name":                  {func(r *registry) { r.sentinel(strings.Repeat("n", MaxType+1), a) }, "1 to 255 bytes"},
	} {
		r := newRegistry()
		if err := errors.Join(r.problems...); err != nil {
			t.Fatal(err)
		}
		c.do(r)
		err := errors.Join(r.problems...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestAnErrorThatIsNoMapKeyIsNotLookedUp(t *testing.T) {
	f := Encode(uncomparable{[]int{1}}, nil)
	if f.Type != "failure.uncomparable" {
		t.Errorf("type %q", f.Type)
	}
}
