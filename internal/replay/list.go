package replay

// list is a doubly linked list whose links are part of what is listed, so that
// leaving a list costs the same however long it is.
type list[T any] struct{ first, last *link[T] }

type link[T any] struct {
	prev, next *link[T]
	in         *list[T]
	of         T
}

func (l *list[T]) push(k *link[T], of T) {
	k.of, k.in, k.prev, k.next = of, l, l.last, nil
	if l.last != nil {
		l.last.next = k
	} else {
		l.first = k
	}
	l.last = k
}

// unlink takes the link out of its list, if it is in one.
func (k *link[T]) unlink() {
	l := k.in
	if l == nil {
		return
	}
	if k.prev != nil {
		k.prev.next = k.next
	} else {
		l.first = k.next
	}
	if k.next != nil {
		k.next.prev = k.prev
	} else {
		l.last = k.prev
	}
	k.prev, k.next, k.in = nil, nil, nil
}
