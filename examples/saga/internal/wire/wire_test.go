package wire_test

import (
	"testing"

	"github.com/engined/engined/examples/saga/internal/wire"
)

func TestEveryCodeHasItsStatus(t *testing.T) {
	for code, want := range map[wire.Code]int{
		wire.Declined: 403, wire.OutOfStock: 403, wire.BadAddress: 403, wire.BadCall: 400, wire.OtherEndpoint: 409,
		wire.IsSealed: 410, wire.OldFence: 412, wire.OtherBody: 422, wire.Internal: 500,
	} {
		if got := code.Status(); got != want {
			t.Errorf("%s is carried by %d, not %d", code, got, want)
		}
	}
}

func TestNoTwoServicesShareAnEndpoint(t *testing.T) {
	seen := map[string]wire.Service{}
	for _, s := range wire.Services() {
		for _, e := range []string{s.Forward(), s.Undo()} {
			if other, twice := seen[e]; twice {
				t.Errorf("%q is of %s and of %s", e, other, s)
			}
			seen[e] = s
		}
	}
	if len(seen) != 8 || seen[""] != wire.Mail {
		t.Errorf("%v; only mail has no undo", seen)
	}
}
