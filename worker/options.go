package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/engined/engined/history"
	"github.com/engined/engined/sdk/codec"
)

// Options of a worker. The zero value means the defaults.
type Options struct {
	// Namespace is "default" if empty.
	Namespace string
	// Queue is the task queue that the worker serves, "default" if empty.
	Queue string
	// Build names the code that runs. A run that this code cannot go on with is
	// offered to workers of other builds, so different code must not share a
	// build. Empty: a hash of the executable file, "exe-…"; where that cannot be
	// read, the version control revision, "vcs-…"; else one drawn for the
	// process, "run-…".
	Build string
	// Identity is what people are shown; empty: the process id and host.
	Identity string
	// Slots is how many activities run at once, 100 if 0.
	Slots int
	// Codec encodes and decodes all values; nil is codec.Default.
	Codec codec.Codec
	// Logger gets the worker's own records and those of user code; nil is
	// slog.Default().
	Logger *slog.Logger
	// Grace is how long Run lets activities finish when its context ends, 10 s
	// if 0, none if negative. Stop's context says it for Stop.
	Grace time.Duration
}

// The defaults of Options.
const (
	DefaultName  = "default" // of the namespace and of the queue
	DefaultSlots = 100
	DefaultGrace = 10 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = DefaultName
	}
	if o.Queue == "" {
		o.Queue = DefaultName
	}
	if o.Build == "" {
		o.Build = defaultBuild()
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host" // only people read it
		}
		o.Identity = fmt.Sprintf("%d@%s", os.Getpid(), host)
	}
	if o.Slots == 0 {
		o.Slots = DefaultSlots
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	o.Codec = codec.Checked(o.Codec)
	return o
}

func (o Options) validate() error {
	var errs []error
	for _, n := range []struct{ what, name string }{
		{"the namespace", o.Namespace}, {"the task queue", o.Queue}, {"the build", o.Build},
	} {
		errs = append(errs, history.CheckName(n.what, n.name))
	}
	errs = append(errs, history.CheckText("the identity", o.Identity))
	if o.Slots < 0 {
		errs = append(errs, fmt.Errorf("%d slots: give 1 or more, or 0 for %d", o.Slots, DefaultSlots))
	}
	return errors.Join(errs...)
}
