package powercut

import (
	"testing"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/storetest"
)

func TestTheDiskIsGoodEnoughForTheStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener {
		d := NewDisk()
		t.Cleanup(d.Release)
		return func(t *testing.T) store.Store {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: Path, Shards: storetest.Shards,
				Driver: &Driver{Disk: d}, Files: d.Files()})
			if err != nil {
				t.Fatalf("Open: %v", err)
			}
			return s
		}
	})
}
