//go:build faults

package fault

import (
	"fmt"
	"os"
	"syscall"
)

// Enabled says whether this binary was built with the tag "faults".
const Enabled = true

// At passes a point. Where nothing is armed and nothing counted, it is one
// comparison.
func At(p Point) {
	if a := armed; a != nil {
		a.pass(p)
	}
}

// arms are what is to happen in this process.
type arms struct {
	board  *Board
	before [points]int64 // passages of the processes before
	terms  [points]Term  // N is 0 where there is none
}

var armed = arm(os.Getenv(Env), os.Getenv(BoardEnv))

// arm reads the environment. A process with a mistake in it must not run on as if
// it were to be killed.
func arm(terms, board string) *arms {
	if terms == "" && board == "" {
		return nil
	}
	a := &arms{board: &Board{cells: new([points]cell)}}
	var all []Term
	var err error
	if board != "" {
		a.board, err = OpenBoard(board)
	}
	if err == nil && terms != "" {
		all, err = Parse(terms)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
		os.Exit(2)
	}
	for _, t := range all {
		a.terms[t.Point] = t
	}
	for p := range a.before {
		a.before[p] = a.board.Passed(Point(p))
	}
	return a
}

func (a *arms) pass(p Point) {
	c := &a.board.cells[p]
	if n := c.passed.Add(1) - a.before[p]; n != a.terms[p].N {
		return
	}
	c.fired.Add(1)
	switch a.terms[p].Action {
	case Exit:
		os.Exit(ExitCode)
	case Freeze:
		must(syscall.Kill(os.Getpid(), syscall.SIGSTOP))
	default:
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {} // until the signal has arrived
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fault: the process cannot signal itself:", err)
		os.Exit(2)
	}
}
