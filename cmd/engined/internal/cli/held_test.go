package cli

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// until is an output that tells when a text has been written to it.
type until struct {
	text    string
	written bytes.Buffer
	told    chan bool
}

func (u *until) Write(p []byte) (int, error) {
	if n, err := u.written.Write(p); !strings.Contains(string(p), u.text) {
		return n, err
	}
	u.told <- true
	return len(p), nil
}

func TestAWaitTellsOnceWhatHoldsTheRun(t *testing.T) {
	addr := serve(t)
	startWorker(t, addr)
	do(t, addr, "workflow start Order --id b --input 1 --wait").has(t, 0) // the worker is there
	if s := do(t, addr, "workflow start Order --id c --input 1").has(t, 0); strings.Contains(s.err, "no connected worker") {
		t.Errorf("a type that is known: %s", s.err)
	}
	do(t, addr, "workflow start Order --id a --queue elsewhere").has(t, 0,
		"no connected worker on queue elsewhere knows Order", "workers on another queue do: default")
	told, ended := make(chan bool, 10), make(chan error, 2)
	for _, command := range []string{"result", "watch"} {
		errs := &until{text: "a is held: no connected worker on queue elsewhere knows the workflow type Order, workers on another queue do: default", told: told}
		root := &cobra.Command{Use: "engined", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(commands(time.Now, func(any) int { return 0 })...)
		root.SetOut(&bytes.Buffer{})
		root.SetErr(errs)
		root.SetArgs([]string{"workflow", command, "a", "--address", addr})
		go func() { ended <- root.ExecuteContext(t.Context()) }()
	}
	<-told
	<-told
	do(t, addr, "workflow terminate a --yes").has(t, 0, "terminated", "nothing had to be undone")
	for range 2 {
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "did not complete") {
			t.Errorf("the wait ended with %v", err)
		}
	}
	if len(told) > 0 {
		t.Errorf("it was told again %d times", len(told))
	}
	do(t, addr, "workflow terminate a --yes").has(t, 1, "terminated before; nothing was done")
	do(t, addr, "workflow cancel b").has(t, 1, "completed before; nothing was done")
}

func TestAnAddressIsShownWithItsPort(t *testing.T) {
	for address, want := range map[string]string{
		"localhost": "localhost:7450", "a:1, b": "a:1,b:7450", "::1": "[::1]:7450", "[::1]:9": "[::1]:9",
	} {
		if got := full(address); got != want {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
		}
	}
}

// A word of a flag's usage that stands in backquotes would be taken for the name of
// the flag's value.
func TestAFlagsValueIsNamedByItsType(t *testing.T) {
	line := regexp.MustCompile(`^ +(-\w, )?--[a-z-]+( (string|duration|int32))?  `)
	for _, tree := range Commands() {
		for _, c := range append(tree.Commands(), tree) {
			for usage := range strings.Lines(c.LocalFlags().FlagUsages()) {
				if !line.MatchString(usage) {
					t.Errorf("%s: %s", c.CommandPath(), usage)
				}
			}
		}
	}
}

func explode(context.Context, int) (int, error) { panic("no such card") }

// faulty panics itself, or has an activity do so.
func faulty(ctx workflow.Context, self bool) (int, error) {
	if self {
		var amounts []int
		return amounts[3], nil
	}
	return workflow.Do(ctx, explode, 1, workflow.Retry{Attempts: 1})
}

func TestAPanicIsTracedToTheUsersLine(t *testing.T) {
	addr := serve(t)
	w, err := worker.Dial(addr, worker.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	worker.Workflow(w, faulty, worker.Name("Faulty"))
	worker.Activity(w, explode)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.WithoutCancel(t.Context())) })
	do(t, addr, "workflow start Faulty --id a --input false --wait").has(t, 5, "no such card", " at held_test.go:")
	do(t, addr, "workflow history a").has(t, 0, "ActivityFailed", " at held_test.go:")
	do(t, addr, "workflow describe a").has(t, 0, "failed with", " at held_test.go:")
	do(t, addr, "workflow start Faulty --id b --input true").has(t, 0)
	for do(t, addr, "workflow list --status stuck -o jsonl").out == "" {
		if t.Context().Err() != nil {
			t.Fatal("it is not held")
		}
	}
	do(t, addr, "workflow describe b").has(t, 0, "index out of range", " at held_test.go:", "what to do start a worker of a build that fits")
	do(t, addr, "workflow describe b -o json").has(t, 0, `"stack": "goroutine `)
}
