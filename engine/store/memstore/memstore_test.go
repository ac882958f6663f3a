package memstore_test

import (
	"testing"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/engine/store/storetest"
)

func TestKeepsThePromisesOfAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener {
		s := memstore.New(storetest.Shards)
		return func(*testing.T) store.Store {
			s = s.Reopen()
			return s
		}
	})
}
