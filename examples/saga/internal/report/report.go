// Package report judges a run of the example by the ledgers of its services, and
// tells a person what happened.
//
// It owns what "balanced" means. It believes the services and not the engine: of
// the engine it takes only which outcome each order had, to hold it against what
// the services did. It must not know how any of it came about.
package report

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/engined/engined/examples/saga/internal/chaos"
	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/wire"
)

// Completed is the status of an order whose workflow returned without an error.
// Every other status means that nothing of the order may be left.
const Completed = "completed"

// Input is all that a report is made of.
type Input struct {
	Seed uint64
	Took time.Duration
	// File is the orders and the stock of the run.
	File *orders.File
	// Outcomes are the engine's, one for each order.
	Outcomes []Outcome
	// Ledgers are the services', read when nothing was under way any more.
	Ledgers []wire.Ledger
	// Blows are what the processes of the engine and the shop had to take.
	Blows  []Blow
	Engine Engine
	// Story is one order's history.
	Story Story
}

// Outcome is what the engine says of an order.
type Outcome struct {
	// Order is the order's id.
	Order string
	// Status is the run's status in the engine's words: "completed", "failed", …
	Status string
	// Undo is the state of its undos in the engine's words: "compensated", …, or
	// empty when there were none.
	Undo string
	// Reason says in a few words why it did not complete.
	Reason string
	// Broken is set when the engine gave up: an undo has failed for good, or the
	// order was still under way when the run ended.
	Broken bool
}

// Blow is something bad that happened to a process, and how often.
type Blow struct {
	// What is a sentence, such as "the engine was killed with -9".
	What string
	N    int64
	// Least is how often it must have happened for the run to count.
	Least int64
}

// Engine is what was counted of the engine.
type Engine struct {
	Retries       int64 // attempts after the first
	Skipped       int64 // steps that replay took from the history
	Compensations int64 // undos that the engine ran
}

// Story is the history of one order.
type Story struct {
	Order string
	Lines []string
}

// ImbalanceError lists what does not balance.
type ImbalanceError struct{ Findings []Finding }

func (e *ImbalanceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the ledgers do not balance (%d findings)", len(e.Findings))
	for _, f := range e.Findings {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// VoidError says that a run proves nothing, since what it was to survive did not
// happen.
type VoidError struct {
	// Missing are the faults of which none happened.
	Missing []chaos.Kind
	// Few are the blows that came less often than they must.
	Few []Blow
}

func (e *VoidError) Error() string {
	var why []string
	for _, k := range e.Missing {
		why = append(why, fmt.Sprintf("no call was %q", k))
	}
	for _, b := range e.Few {
		why = append(why, fmt.Sprintf("%s %d times and not %d", b.What, b.N, b.Least))
	}
	return "the run is void: " + strings.Join(why, ", ")
}

// Judge checks the run. The error is nil or holds, for errors.As, an
// *ImbalanceError, a *VoidError, or both.
func Judge(in Input) error {
	var imbalance, void error
	if found := Check(in); len(found) > 0 {
		imbalance = &ImbalanceError{found}
	}
	v := &VoidError{}
	seen := happened(in.Ledgers)
	for _, k := range chaos.Wanted() {
		if seen[k] == 0 {
			v.Missing = append(v.Missing, k)
		}
	}
	for _, b := range in.Blows {
		if b.N < b.Least {
			v.Few = append(v.Few, b)
		}
	}
	if len(v.Missing) > 0 || len(v.Few) > 0 {
		void = v
	}
	return errors.Join(imbalance, void)
}

// Write judges the run and writes its page to w, in colours if asked for. The
// error is Judge's, joined with one of w.
func Write(w io.Writer, in Input, colours bool) error {
	verdict := Judge(in)
	_, err := io.WriteString(w, page(in, verdict, colours))
	if err != nil {
		err = fmt.Errorf("write the page: %w", err)
	}
	return errors.Join(verdict, err)
}

// happened counts the faults of all services.
func happened(ledgers []wire.Ledger) map[chaos.Kind]int {
	seen := map[chaos.Kind]int{}
	for _, l := range ledgers {
		for _, f := range l.Faults {
			seen[chaos.Kind(f.Kind)]++
		}
	}
	return seen
}
