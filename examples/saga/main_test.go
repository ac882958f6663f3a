package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/report"
	"github.com/engined/engined/examples/saga/internal/service"
)

// TestMain lets the test binary be the processes that the example starts.
func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(service.Env) != "":
		err = service.Main(context.Background(), os.Stdin, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	case os.Getenv(shopEnv) != "":
		err = runShop(context.Background(), os.Stdin, os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// The example itself, at one seed: real processes, real kills, balanced books.
func TestTheBooksBalanceThroughEveryFaultAndKill(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-seed", "20261201"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, part := range []string{"BALANCED", "killed with -9", "their steps are done and not run again", "The history of order-"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the page does not say %q", part)
		}
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
