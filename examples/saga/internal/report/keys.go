package report

import (
	"github.com/engined/engined/examples/saga/internal/wire"
)

// keys follows each key through the ledgers.
type keys struct {
	c *checker
	// did is which service did a thing under the key, over all services: a key
	// belongs to one step.
	did map[string]wire.Service
	// rest is by service: a forward key means what it does only there.
	rest map[wire.Service]*serviceKeys
}

type serviceKeys struct {
	done   map[string]wire.Row // effects by key
	closed map[string]wire.Row // undos and seals by forward key
	fence  map[string]int64    // the highest that was not refused
}

func newKeys(c *checker) *keys {
	return &keys{c: c, did: map[string]wire.Service{}, rest: map[wire.Service]*serviceKeys{}}
}

// row takes the next line of a service's ledger, in its order.
func (k *keys) row(s wire.Service, r wire.Row) {
	of := k.rest[s]
	if of == nil {
		of = &serviceKeys{done: map[string]wire.Row{}, closed: map[string]wire.Row{}, fence: map[string]int64{}}
		k.rest[s] = of
	}
	switch {
	case r.Kind == wire.RowRefused:
		if r.Code == wire.OtherEndpoint || r.Code == wire.OtherBody {
			k.c.fail(GoodCaller, r.Order, "%s refused key %s: %s", s, r.Key, r.Code)
		}
		return // it did nothing, and raised no fence
	case r.Kind == s.Forward():
		k.effect(s, of, r)
	case r.Kind == s.Undo():
		k.undo(s, of, r)
	case r.Kind == wire.RowSeal:
		k.seal(s, of, r)
	case r.Kind != wire.RowRepeat:
		k.c.fail(AllThere, r.Order, "%s: line %d is a %q", s, r.N, r.Kind)
	}
	if r.Fence < of.fence[r.Key] {
		k.c.fail(FenceHolds, r.Order, "%s took key %s with fence %d after %d", s, r.Key, r.Fence, of.fence[r.Key])
	}
	of.fence[r.Key] = max(of.fence[r.Key], r.Fence)
}

func (k *keys) effect(s wire.Service, of *serviceKeys, r wire.Row) {
	if where, twice := k.did[r.Key]; twice {
		k.c.fail(Once, r.Order, "%s did a %s under key %s, which has had its effect at %s", s, r.Kind, r.Key, where)
	}
	if was, ok := of.closed[r.Key]; ok {
		k.c.fail(SealHolds, r.Order, "%s did a %s under key %s in line %d, after the %s in line %d", s, r.Kind, r.Key, r.N, was.Kind, was.N)
	}
	k.did[r.Key] = s
	of.done[r.Key] = r
}

func (k *keys) undo(s wire.Service, of *serviceKeys, r wire.Row) {
	if where, twice := k.did[r.Key]; twice {
		k.c.fail(Once, r.Order, "%s did a %s under key %s, which has had its effect at %s", s, r.Kind, r.Key, where)
	}
	was, ok := of.done[r.ForwardKey]
	switch {
	case !ok:
		k.c.fail(Undone, r.Order, "%s did a %s of key %s, under which nothing was done", s, r.Kind, r.ForwardKey)
	case was.Cents != r.Cents || was.SKU != r.SKU || was.Quantity != r.Quantity || was.Order != r.Order:
		k.c.fail(Undone, r.Order, "%s: the %s in line %d is not that of line %d", s, r.Kind, r.N, was.N)
	}
	if before, ok := of.closed[r.ForwardKey]; ok {
		k.c.fail(Undone, r.Order, "%s did a %s of key %s after the %s in line %d", s, r.Kind, r.ForwardKey, before.Kind, before.N)
	}
	k.did[r.Key] = s
	of.closed[r.ForwardKey] = r
}

func (k *keys) seal(s wire.Service, of *serviceKeys, r wire.Row) {
	if was, ok := of.done[r.ForwardKey]; ok {
		k.c.fail(Undone, r.Order, "%s sealed key %s in line %d, and did not undo line %d", s, r.ForwardKey, r.N, was.N)
	}
	if r.Claim == wire.Done {
		k.c.fail(NothingLost, r.Order, "%s has nothing under key %s, which the engine knows as done", s, r.ForwardKey)
	}
	of.closed[r.ForwardKey] = r
}
