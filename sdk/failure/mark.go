package failure

import (
	"reflect"
	"time"
)

// mark adds a flag to an error without being seen in its text or its tree's
// encoded form.
type mark struct {
	error
	final bool
	after time.Duration
}

func (m *mark) Unwrap() error { return m.error }

// Final marks err as final: what failed with it is not tried again, whatever
// wraps the error afterwards (fmt.Errorf with %w, errors.Join). For a saga
// step it also says that nothing was done. Final(nil) is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &mark{error: err, final: true}
}

// RetryAfter marks err with the delay after which to try again, in place of the
// policy's backoff; a delay below zero counts as zero. The outermost mark
// counts. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	// An explicit zero is told from none by the smallest delay there is.
	return &mark{error: err, after: max(d, 1)}
}

// IsFinal says whether any error in err's tree is marked as final, here or where
// it came from.
func IsFinal(err error) bool {
	found := false
	walk(err, func(e error) bool {
		switch e := e.(type) {
		case *mark:
			found = e.final
		case *Error:
			found = e != nil && e.Final
		}
		return !found
	})
	return found
}

// Delay returns the delay that err asked for by RetryAfter, or 0.
func Delay(err error) time.Duration {
	var d time.Duration
	walk(err, func(e error) bool {
		switch e := e.(type) {
		case *mark:
			d = e.after
		case *Error:
			if e != nil {
				d = e.After
			}
		}
		return d == 0
	})
	return d
}

// Marks returns what was asked for by Final and RetryAfter in this process alone.
// What was decoded has failed elsewhere: it says nothing about what fails with it
// here, neither that this has done nothing nor when to try it again.
func Marks(err error) (final bool, after time.Duration) {
	left := 4 * MaxErrors
	walkBounded(err, unwrapOwn, func(e error) bool {
		if m, ok := e.(*mark); ok {
			final = final || m.final
			if after == 0 {
				after = m.after
			}
		}
		return true
	}, &left)
	return final, after
}

// unwrapOwn is unwrap, but what was decoded wraps nothing of this process: not
// even a registered sentinel, which may be a marked one.
func unwrapOwn(err error) []error {
	if _, ok := err.(*Error); ok {
		return nil
	}
	return unwrap(err)
}

// walk visits err's tree, parents first, until visit returns false. It is
// bounded as the encoding is: user code may build a cycle.
func walk(err error, visit func(error) bool) {
	left := 4 * MaxErrors // marks are not encoded, so more may be there
	walkBounded(err, unwrap, visit, &left)
}

func walkBounded(err error, causes func(error) []error, visit func(error) bool, left *int) bool {
	if *left--; err == nil || *left < 0 {
		return *left >= 0
	}
	if !visit(err) {
		return false
	}
	for _, c := range causes(err) {
		if !walkBounded(c, causes, visit, left) {
			return false
		}
	}
	return true
}

// unwrap returns what err wraps, in order. A method that panics, as on a nil
// pointer in an error, wraps nothing.
func unwrap(err error) (causes []error) {
	defer func() {
		if recover() != nil {
			causes = nil
		}
	}()
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if c := e.Unwrap(); c != nil {
			return []error{c}
		}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}

// isNil says whether the error holds a nil pointer.
func isNil(err error) bool {
	v := reflect.ValueOf(err)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
