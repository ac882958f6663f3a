package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The environment of a process that was built with the tag "faults".
const (
	Env      = "ENGINED_FAULTS"
	BoardEnv = "ENGINED_FAULTS_BOARD"
)

// Action is what happens at a point.
type Action string

// The actions.
const (
	Kill   Action = "kill"
	Exit   Action = "exit"
	Freeze Action = "freeze"
)

// ExitCode is that of a process which was made to exit.
const ExitCode = 86

// Term says that something happens at the nth passage of a point, counted from the
// start of the process.
type Term struct {
	Point  Point
	Action Action
	N      int64
}

func (t Term) String() string { return fmt.Sprintf("%s=%s@%d", t.Point, t.Action, t.N) }

// Parse reads terms that are separated by commas.
func Parse(text string) ([]Term, error) {
	var all []Term
	for part := range strings.SplitSeq(text, ",") {
		t, err := parseTerm(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func parseTerm(text string) (Term, error) {
	name, rest, _ := strings.Cut(text, "=")
	action, count, _ := strings.Cut(rest, "@")
	n, err := strconv.ParseInt(count, 10, 64)
	i := slices.Index(names[:], name)
	t := Term{Point(i), Action(action), n}
	switch {
	case i < 0:
		return t, fmt.Errorf("%q is no fault: there is no point %q", text, name)
	case t.Action != Kill && t.Action != Exit && t.Action != Freeze:
		return t, fmt.Errorf("%q is no fault: %q is none of kill, exit, freeze", text, action)
	case err != nil || n < 1:
		return t, fmt.Errorf("%q is no fault: %q is no number from 1 on", text, count)
	}
	return t, nil
}
