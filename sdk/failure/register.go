package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"sync"
)

// registry maps errors to the names they cross the wire under. It is filled by
// init functions and package variables and read ever after.
type registry struct {
	mu        sync.RWMutex
	sentinels map[string]error
	names     map[error]string
	types     map[string]reflect.Type
	typeNames map[reflect.Type]string
	problems  []error
}

var known = newRegistry()

func newRegistry() *registry {
	r := &registry{
		sentinels: map[string]error{},
		names:     map[error]string{},
		types:     map[string]reflect.Type{},
		typeNames: map[reflect.Type]string{},
	}
	for name, err := range map[string]error{
		"context.Canceled":         context.Canceled,
		"context.DeadlineExceeded": context.DeadlineExceeded,
		"io.EOF":                   io.EOF,
		"io.ErrUnexpectedEOF":      io.ErrUnexpectedEOF,
		"os.ErrDeadlineExceeded":   os.ErrDeadlineExceeded,
		"fs.ErrNotExist":           fs.ErrNotExist,
		"fs.ErrExist":              fs.ErrExist,
		"fs.ErrPermission":         fs.ErrPermission,
	} {
		r.sentinel(name, err)
	}
	return r
}

// Register gives a sentinel error its name on the wire, by which it is found
// again in every program that registers it, too. Names are "package.Name" by
// custom, at most MaxType bytes, and never change once used. The sentinels of
// context, io, io/fs and os that activities meet are registered already.
//
// Registering the same pair again does nothing. Any other conflict is kept, and
// Check, and with it the start of a worker, reports it.
func Register(name string, sentinel error) { known.sentinel(name, sentinel) }

// RegisterType gives the error type E (a struct, or a pointer to one) its name
// on the wire. Its exported fields travel as details, by the codec. A field of
// type error does not; the first one gets back what Unwrap returned.
// Names and conflicts are as for Register.
func RegisterType[E error](name string) { known.typ(name, reflect.TypeFor[E]()) }

// Check returns the conflicts among all registrations so far, joined, or nil.
func Check() error {
	known.mu.RLock()
	defer known.mu.RUnlock()
	return errors.Join(known.problems...)
}

func (r *registry) sentinel(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.problem(name, "the sentinel is nil")
	case !reflect.ValueOf(err).Comparable():
		r.problem(name, fmt.Sprintf("%T cannot be compared, so it is no sentinel: use RegisterType", err))
	case r.sentinels[name] == err:
	case r.usable(name):
		r.sentinels[name] = err
		r.names[err] = name
	}
}

func (r *registry) typ(name string, t reflect.Type) {
	r.mu.Lock()
	defer r.mu.Unlock()
	base := t
	if base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	switch {
	case base.Kind() == reflect.Interface || t.Kind() == reflect.Pointer && base.Kind() == reflect.Pointer:
		r.problem(name, t.String()+" is no type to decode into: register a struct or a pointer to one")
	case r.types[name] == t:
	case r.usable(name):
		r.types[name] = t
		r.typeNames[t] = name
	}
}

func (r *registry) usable(name string) bool {
	if name == "" || len(name) > MaxType {
		r.problem(name, fmt.Sprintf("a name has 1 to %d bytes", MaxType))
		return false
	}
	_, sentinel := r.sentinels[name]
	_, typ := r.types[name]
	if sentinel || typ {
		r.problem(name, "the name is taken by another error")
		return false
	}
	return true
}

func (r *registry) problem(name, why string) {
	r.problems = append(r.problems, fmt.Errorf("register error %q: %s", name, why))
}

// nameOf returns the registered name of err: as a sentinel, else by its type.
func (r *registry) nameOf(err error) (name string, isType bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if reflect.ValueOf(err).Comparable() {
		if name, ok := r.names[err]; ok {
			return name, false
		}
	}
	name, isType = r.typeNames[reflect.TypeOf(err)]
	return name, isType
}

func (r *registry) lookup(name string) (t reflect.Type, sentinel error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.types[name], r.sentinels[name]
}
