package engine

import (
	"crypto/rand"
	"encoding/binary"
	"sync"

	"github.com/oklog/ulid/v2"
)

// randomUint64 is the default source: the operating system's.
func randomUint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails: the standard library ends the process instead
	return binary.LittleEndian.Uint64(b[:])
}

// newULID returns a maker of ULIDs that grow within a millisecond.
func newULID() func(ms uint64) string {
	var mu sync.Mutex
	entropy := ulid.Monotonic(rand.Reader, 0)
	return func(ms uint64) string {
		mu.Lock()
		defer mu.Unlock()
		id, err := ulid.New(ms, entropy)
		if err != nil {
			// 2^80 ids in one millisecond: begin the next one's.
			id, _ = ulid.New(ms+1, rand.Reader)
		}
		return id.String()
	}
}
