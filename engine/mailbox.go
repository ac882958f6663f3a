package engine

import (
	"runtime"
	"sync"
)

// mailbox is an unbounded queue that never blocks who posts. What comes from
// outside is bounded before it is posted, and refused.
type mailbox[T any] struct {
	mu     sync.Mutex
	items  []T
	spare  []T
	closed bool
	// ready holds a token while there may be items.
	ready chan struct{}
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{ready: make(chan struct{}, 1)} }

// post appends; false when the mailbox is closed.
func (b *mailbox[T]) post(items ...T) bool { return b.postBelow(0, items...) == nil }

// postBelow appends unless limit (when positive) items wait already.
func (b *mailbox[T]) postBelow(limit int, items ...T) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	if limit > 0 && len(b.items) >= limit {
		return errFull
	}
	b.items = append(b.items, items...)
	b.wake()
	return nil
}

func (b *mailbox[T]) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take returns all that is there, after one yield, so that what is about to be
// posted comes along. The slice is valid until the next take.
func (b *mailbox[T]) take() []T {
	runtime.Gosched()
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	clear(b.spare)
	b.items, b.spare = b.spare[:0], items
	return items
}

// close refuses new items; those that are there may still be taken.
func (b *mailbox[T]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wake()
}

func (b *mailbox[T]) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}

func (b *mailbox[T]) drained() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed && len(b.items) == 0
}
