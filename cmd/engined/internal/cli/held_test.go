package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
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
	do(t, addr, "workflow start Order --id a --queue elsewhere").has(t, 0,
		"no connected worker on queue elsewhere knows Order", "workers on another queue do: default")
	if s := do(t, addr, "workflow start Order --id b --input 1 --wait").has(t, 0); s.err != "" {
		t.Errorf("a type that is known: %s", s.err)
	}
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
