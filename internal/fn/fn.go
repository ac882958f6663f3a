// Package fn gives Go functions the names under which they are stored.
//
// It owns the rule that turns the linker's name into ours and the refusals; it
// must not know what the functions are for.
package fn

import (
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
)

// NameError says why a function has no name of its own to be stored under.
type NameError struct {
	// Func is what the linker calls it, or the Go type of what is no function.
	Func string
	Why  string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%s %s: its name would not be the same in the next build; use a declared function or method, or give a name by option", e.Func, e.Why)
}

// A name is worked out once a function: naming one stands on the path of
// every step.
var names sync.Map // code pointer → named

type named struct {
	name string
	err  error
}

// Name returns the stored name of a declared function or method: "PlaceOrder",
// "Shop.Charge". The package path, a pointer receiver and a method value's
// receiver are dropped, so a nil *Shop names its methods. Closures, instances
// of generic functions, nil functions and other values have none: a *NameError
// says why and what to do.
func Name(f any) (string, error) {
	v := reflect.ValueOf(f)
	if !v.IsValid() {
		return "", &NameError{Func: "nil", Why: "is not a function"}
	}
	if v.Kind() != reflect.Func {
		return "", &NameError{Func: "a value of type " + v.Type().String(), Why: "is not a function"}
	}
	if v.IsNil() {
		return "", &NameError{Func: v.Type().String(), Why: "is a nil function"}
	}
	pc := v.Pointer()
	if n, ok := names.Load(pc); ok {
		return n.(named).name, n.(named).err
	}
	n := nameOf(runtime.FuncForPC(pc))
	names.Store(pc, n)
	return n.name, n.err
}

func nameOf(f *runtime.Func) named {
	if f == nil {
		return named{err: &NameError{Func: "a function", Why: "is unknown to the runtime"}}
	}
	name, why := shorten(f.Name())
	if why != "" {
		return named{err: &NameError{Func: f.Name(), Why: why}}
	}
	return named{name: name}
}

// anonymous are the name parts that the compiler makes up for functions without
// a name of their own: func1, 2, gowrap1.
var anonymous = regexp.MustCompile(`^(func|gowrap|deferwrap)?[0-9]+$`)

// shorten turns the linker's name, "host/path/pkg.(*Shop).Charge-fm", into ours.
// why is not empty when there is none.
func shorten(full string) (name, why string) {
	if strings.Contains(full, "[") {
		return "", "is an instance of a generic function or type"
	}
	// Dots in the last element of a package path are escaped, so the first dot
	// behind the last slash ends the package.
	_, local, ok := strings.Cut(full[strings.LastIndexByte(full, '/')+1:], ".")
	if !ok {
		return "", "has no package"
	}
	local, isMethodValue := strings.CutSuffix(local, "-fm")
	parts := strings.Split(local, ".")
	if !isMethodValue && isClosure(parts) {
		return "", "is a closure"
	}
	if len(parts) == 2 {
		parts[0] = strings.TrimSuffix(strings.TrimPrefix(parts[0], "(*"), ")")
	}
	return strings.Join(parts, "."), ""
}

func isClosure(parts []string) bool {
	if len(parts) > 2 || strings.Contains(parts[len(parts)-1], "-") {
		return true // "outer.inner.func1", "outer-range1"
	}
	return len(parts) == 2 && anonymous.MatchString(parts[1])
}
