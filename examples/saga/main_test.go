package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/report"
)

// TestMain lets the test binary be the processes that the example starts.
func TestMain(m *testing.M) {
	isChild, err := child(context.Background())
	if !isChild {
		os.Exit(m.Run())
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// The example itself, in either form: real processes, real kills, balanced books.
func TestTheBooksBalanceThroughEveryFaultAndKill(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		tells []string
	}{
		"engined and two workers": {[]string{"-seed", "20261201"}, []string{
			"the engine was killed with -9, with ", "worker 1 was killed with -9, with ", "worker 2 was killed with -9, with ",
			"was frozen with SIGSTOP, with ", "goes on, after ",
		}},
		"all in one": {[]string{"-seed", "20261202", "-embedded"}, []string{"the shop was killed with -9, with "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := run(t.Context(), c.args, &out); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			for _, part := range append(c.tells, "BALANCED", "of their steps are done and not run again", "The history of order-") {
				if !strings.Contains(out.String(), part) {
					t.Errorf("the page does not say %q", part)
				}
			}
		})
	}
}

// A run in which nothing went wrong proves nothing, and says so.
func TestARunWithoutItsFaultsIsVoid(t *testing.T) {
	file, err := orders.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	var void *report.VoidError
	if err := report.Judge(report.Input{File: file}); !errors.As(err, &void) {
		t.Errorf("judged as %v, want void", err)
	}
}

func TestABadOrdersFileIsRefusedWithItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(path, []byte(`{"stock": [], "orders": [{"id": 7}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var bad *orders.FileError
	if err := run(t.Context(), []string{"-orders", path}, &bytes.Buffer{}); !errors.As(err, &bad) {
		t.Errorf("got %v, want a *orders.FileError", err)
	}
}
