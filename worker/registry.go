package worker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
)

// registry knows what the worker can run. It is filled before the start and read
// from then on.
type registry struct {
	mu         sync.Mutex // held while registering only
	sealed     bool
	problems   []error
	workflows  map[string]*workflowType
	activities map[string]*activityType
	// renamed maps a function's name to the name it was registered under.
	renamed map[string]string
}

type workflowType struct {
	name string
	body replay.Body
}

func newRegistry() *registry {
	return &registry{
		workflows:  map[string]*workflowType{},
		activities: map[string]*activityType{},
		renamed:    map[string]string{},
	}
}

// problem keeps an error of registration for the start to report.
func (r *registry) problem(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, err)
}

// seal ends registration and returns what went wrong in it.
func (r *registry) seal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealed = true
	if len(r.problems) == 0 && len(r.workflows) == 0 && len(r.activities) == 0 {
		return errors.New("nothing is registered: give the worker workflows or activities before its start")
	}
	return errors.Join(r.problems...)
}

func (r *registry) addWorkflow(names []string, t *workflowType) {
	add(r, r.workflows, "workflow", names, t)
}

// addActivity registers an activity under its names. function is the name that
// calls of it in workflow code are made by.
func (r *registry) addActivity(function string, names []string, t *activityType) {
	if !add(r, r.activities, "activity", names, t) || function == "" || function == names[0] {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renamed[function] = names[0]
}

func add[T any](r *registry, types map[string]*T, kind string, names []string, t *T) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sealed {
		// Maps that are read without a lock by now must not change.
		r.problems = append(r.problems, fmt.Errorf("register %s %s: the worker has started", kind, names[0]))
		return false
	}
	for _, name := range names {
		if err := history.CheckName("the name of the "+kind, name); err != nil {
			r.problems = append(r.problems, fmt.Errorf("register %s %q: %w", kind, name, err))
			return false
		}
		if types[name] != nil {
			r.problems = append(r.problems, fmt.Errorf("register %s %s: the name is registered already; give another by option", kind, name))
			return false
		}
	}
	for _, name := range names {
		types[name] = t
	}
	return true
}

// sameActivity says whether two names are of one activity.
func (r *registry) sameActivity(recorded, now string) bool {
	if recorded == now {
		return true
	}
	t := r.activities[recorded]
	return t != nil && t == r.activities[now]
}

// activityName is the stored name for calls of a function.
func (r *registry) activityName(function string) string {
	if name, ok := r.renamed[function]; ok {
		return name
	}
	return function
}

func (r *registry) workflowNames() []string { return slices.Sorted(maps.Keys(r.workflows)) }
func (r *registry) activityNames() []string { return slices.Sorted(maps.Keys(r.activities)) }

// unknown tells what a worker knows in place of what it was asked for.
func unknown(kind, name, queue string, known []string) string {
	list := "none"
	if len(known) > 0 {
		list = strings.Join(known, ", ")
	}
	return fmt.Sprintf("%s type %s is not registered on queue %s; registered are: %s", kind, name, queue, list)
}
