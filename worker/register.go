package worker

import (
	"fmt"
	"reflect"

	"github.com/engined/engined/internal/fn"
	"github.com/engined/engined/sdk/workflow"
)

// RegisterOption changes the names of what is registered.
type RegisterOption func(*names)

type names struct {
	name    string
	aliases []string
}

// Name gives what is registered a name in place of the function's own. For
// Activities it is the name of the struct, in front of the dot. Calls of the
// function by a workflow of the same worker use it by themselves; those of other
// programs must name it (client.StartNamed, workflow.DoNamed).
func Name(name string) RegisterOption { return func(n *names) { n.name = name } }

// Alias adds an older name: what was recorded or is asked for under it still
// runs. So a function can be renamed under running histories. For Activities
// it is the name of the struct, in front of the dot.
func Alias(name string) RegisterOption {
	return func(n *names) { n.aliases = append(n.aliases, name) }
}

func apply(opts []RegisterOption) names {
	var n names
	for _, o := range opts {
		o(&n)
	}
	return n
}

// all returns the names of a function, its first one first.
func (n names) all(own string) []string {
	if n.name != "" {
		own = n.name
	}
	return append([]string{own}, n.aliases...)
}

// Workflow registers a workflow under its function's name, "PlaceOrder".
// Functions without a name of their own (closures, generic instances) need the
// option Name. What is wrong is reported by Start.
func Workflow[In, Out any](w *Worker, f func(workflow.Context, In) (Out, error), opts ...RegisterOption) {
	n := apply(opts)
	own, err := fn.Name(f)
	if f == nil || err != nil && n.name == "" {
		w.registry.problem(fmt.Errorf("register workflow: %w", err))
		return
	}
	all := n.all(own)
	w.registry.addWorkflow(all, &workflowType{name: all[0], body: workflow.Bind(f, w.opts.Codec)})
}

// Activity registers one function or method of the form
//
//	func(context.Context, In) (Out, error)
//	func(context.Context, In) error
//
// under its own name, "Charge" or "Shop.Charge". Functions without a name of
// their own need the option Name. What is wrong is reported by Start.
func Activity(w *Worker, f any, opts ...RegisterOption) {
	n := apply(opts)
	own, err := fn.Name(f)
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Func || v.IsNil() || err != nil && n.name == "" {
		w.registry.problem(fmt.Errorf("register activity: %w", err))
		return
	}
	all := n.all(own)
	a, err := newActivity(all[0], v)
	if err != nil {
		w.registry.problem(fmt.Errorf("register activity %s: %w", all[0], err))
		return
	}
	w.registry.addActivity(own, all, a)
}

// Activities registers every exported method of v that has the form of an
// activity (see Activity) as "Shop.Charge". Other methods are left out, but one
// that takes a context first and is no activity all the same is an error, and so
// is a value without any. Methods of embedded types get the outer type's name.
// What is wrong is reported by Start.
func (w *Worker) Activities(v any, opts ...RegisterOption) {
	rv := reflect.ValueOf(v)
	t := rv.Type
	if !rv.IsValid() || rv.Kind() == reflect.Pointer && rv.IsNil() {
		w.registry.problem(fmt.Errorf("register activities: %T is nil: give the value that holds what its methods need", v))
		return
	}
	n := apply(opts)
	own, err := typeName(t())
	if err != nil && n.name == "" {
		w.registry.problem(fmt.Errorf("register activities of %T: %w", v, err))
		return
	}
	if !w.addMethods(rv, own, n) {
		w.registry.problem(fmt.Errorf("register activities of %T: no exported method has the form of an activity, func(context.Context, In) (Out, error) or func(context.Context, In) error; give a pointer if the methods have pointer receivers", v))
	}
}

// addMethods registers the methods that are activities and says whether there
// was any that is one or was meant as one.
func (w *Worker) addMethods(v reflect.Value, own string, n names) bool {
	found := false
	for i := range v.NumMethod() {
		name, m := v.Type().Method(i).Name, v.Method(i)
		if !meantAsActivity(m.Type()) {
			continue
		}
		found = true
		all := n.all(own)
		for j := range all {
			all[j] += "." + name
		}
		a, err := newActivity(all[0], m)
		if err != nil {
			w.registry.problem(fmt.Errorf("register activity %s: %w", all[0], err))
			continue
		}
		w.registry.addActivity(own+"."+name, all, a)
	}
	return found
}

// typeName is the name of a declared type, without a pointer.
func typeName(t reflect.Type) (string, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := t.Name()
	switch {
	case name == "":
		return "", fmt.Errorf("the type has no name; give one by option")
	case name[len(name)-1] == ']':
		return "", fmt.Errorf("an instance of a generic type has no stable name; give one by option")
	}
	return name, nil
}
