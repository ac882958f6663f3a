package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/engine/rpc"
	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

var quiet = slog.New(slog.DiscardHandler)

// serve boots an engine on a memory store and returns where it listens.
func serve(t *testing.T) string {
	e, err := engine.Open(t.Context(), engine.Config{Store: memstore.New(4), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer(e, rpc.Options{Logger: quiet})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		s.Stop(ctx)
		if err := errors.Join(<-served, e.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

type shop struct{}

var theShop *shop

func (*shop) Charge(_ context.Context, n json.Number) (json.Number, error) { return n, nil }

func (*shop) Refund(context.Context, saga.Undo[json.Number, json.Number]) error { return nil }

func (*shop) Ship(_ context.Context, n json.Number) (string, error) {
	if n == "0" {
		return "", activity.Fail("nothing to ship")
	}
	return "track", nil
}

// order pays and ships; its result is what it was given.
func order(ctx workflow.Context, n json.Number) (json.Number, error) {
	if _, err := saga.Do(ctx, theShop.Charge, n, theShop.Refund); err != nil {
		return n, err
	}
	_, err := workflow.Do(ctx, theShop.Ship, n)
	return n, err
}

func startWorker(t *testing.T, addr string) {
	w, err := worker.Dial(addr, worker.Options{Build: "one", Identity: "worker-1", Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	worker.Workflow(w, order, worker.Name("Order"))
	w.Activities(&shop{})
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.WithoutCancel(t.Context())) })
}

// said is what a command line came to.
type said struct {
	out, err string
	code     int
}

// do runs a command line; stdin is empty unless given.
func do(t *testing.T, addr, line string, stdin ...string) said {
	t.Helper()
	t.Setenv(addressEnv, addr)
	return execute(t.Context(), commands(time.Now, func(any) int { return 0 }), line, strings.Join(stdin, ""))
}

// empty stands for an argument that is empty.
const empty = "\x00"

func execute(ctx context.Context, trees []*cobra.Command, line, stdin string) said {
	root := &cobra.Command{Use: "engined", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(trees...)
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetIn(strings.NewReader(stdin))
	args := strings.Fields(line)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], empty, "")
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	s := said{out: out.String(), err: errs.String()}
	if err != nil {
		var coded interface{ ExitCode() int }
		if s.code = 1; errors.As(err, &coded) {
			s.code = coded.ExitCode()
		}
		s.err += err.Error()
	}
	return s
}

// has checks the exit code and what stands in both outputs together.
func (s said) has(t *testing.T, code int, parts ...string) said {
	t.Helper()
	if s.code != code {
		t.Errorf("exit %d, want %d: %s%s", s.code, code, s.out, s.err)
	}
	for _, p := range parts {
		if !strings.Contains(s.out+s.err, p) {
			t.Errorf("it does not say %q:\n%s%s", p, s.out, s.err)
		}
	}
	return s
}

func TestARunFromItsStartToItsResult(t *testing.T) {
	addr := serve(t)
	do(t, addr, "workflow list").has(t, 0, "no runs", "engined workflow start")
	do(t, addr, "worker list").has(t, 0, "no worker is connected", "worker.Dial")
	do(t, addr, "queue list").has(t, 0, "nothing waits")
	do(t, addr, "workflow start Order --id a --input 9007199254740993").has(t, 0, "a\n", "engined workflow watch a", "no connected worker on queue default knows Order", "none")
	do(t, addr, "workflow start Order --id a --input 1").has(t, 6, "is open", "engined workflow describe a --run-id", "--on-conflict use-existing")
	do(t, addr, "workflow start Order --id a --input 1 --on-conflict use-existing").has(t, 0, "was there already")
	do(t, addr, "workflow describe a").has(t, 0, "no worker", "Order")
	do(t, addr, "workflow list").has(t, 0, "running", "no worker on queue default knows Order", "engined queue list")
	do(t, addr, "workflow history a").has(t, 0, "a is running (no worker)", "--follow", "engined workflow describe a")
	do(t, addr, "queue list").has(t, 0, "no worker knows it")
	do(t, addr, "workflow result a --no-wait").has(t, 5, "running", "workflow result a")
	startWorker(t, addr)
	if s := do(t, addr, "workflow result a").has(t, 0); s.out != "9007199254740993\n" {
		t.Errorf("standard output is %q", s.out)
	}
	do(t, addr, "workflow list").has(t, 0, "completed", "Order")
	do(t, addr, "worker list").has(t, 0, "worker-1", "0/100", "ready")
	do(t, addr, "queue list").has(t, 0, "Order", "workflow")
	do(t, addr, "workflow history a").has(t, 0, "WorkflowStarted", "#1 shop.Charge", "WorkflowCompleted")
	do(t, addr, "workflow history a --follow").has(t, 0, "WorkflowCompleted")
	do(t, addr, "workflow history a --timeline").has(t, 0, "#1 shop.Charge", "completed after")
	do(t, addr, "workflow describe a").has(t, 0, "status     completed\n", "result     9007199254740993\n")
	do(t, addr, "workflow watch a").has(t, 0, "WorkflowCompleted", "9007199254740993")
	do(t, addr, "workflow start Order --id b --input-file - --wait", " 7 \n").has(t, 0, "7\n")
}

func TestARunThatDoesNotComplete(t *testing.T) {
	addr := serve(t)
	startWorker(t, addr)
	do(t, addr, "workflow start Order --id a --input 0 --wait").has(t, 5, "failed, compensated", "nothing to ship", "engined workflow history a")
	do(t, addr, "workflow start Nobody --id b").has(t, 0)
	do(t, addr, "workflow cancel b --reason enough").has(t, 0, "b is asked to end", "the engine ends it in ", "engined workflow watch b")
	do(t, addr, "workflow cancel b --reason enough").has(t, 0, "was asked to end before")
	do(t, addr, "workflow terminate b").has(t, 2, "--yes", "nothing was done")
	do(t, addr, "workflow terminate b --yes --reason enough").has(t, 0, "b is terminated", "nothing had to be undone")
	for _, again := range []string{"terminate", "cancel"} {
		do(t, addr, "workflow "+again+" b").has(t, 1, "was terminated before; nothing was done", "engined workflow describe b --run-id")
	}
	do(t, addr, "workflow result b").has(t, 5, "terminated", "enough")
	do(t, addr, "workflow describe a").has(t, 0, "failed with\n  activity shop.Ship", "nothing to ship")
	do(t, addr, "workflow list --status failed").has(t, 0, "failed, compensated")
}

func TestWhatProgramsRead(t *testing.T) {
	addr := serve(t)
	startWorker(t, addr)
	do(t, addr, "workflow start Order --id a --input 12345678901234567890 --wait").has(t, 0)
	for _, id := range []string{"n2", "n3"} {
		do(t, addr, "workflow start Nobody --id "+id).has(t, 0)
	}
	for _, line := range []string{
		"workflow list", "workflow describe a", "workflow history a", "workflow history a --follow", "workflow result a",
		"workflow watch a", "worker list", "queue list", "workflow start Order --id b --input 1", "workflow start Nobody --id n --on-conflict use-existing",
		"workflow cancel n", "workflow terminate n2 --yes",
	} {
		s := do(t, addr, line+" -o json").has(t, 0)
		var doc map[string]any
		if err := json.Unmarshal([]byte(s.out), &doc); err != nil || len(doc) == 0 {
			t.Errorf("%s -o json is no object: %v\n%s", line, err, s.out)
		}
		s = do(t, addr, strings.NewReplacer("--id b", "--id c", "n2", "n3").Replace(line)+" -o jsonl").has(t, 0)
		for l := range strings.Lines(s.out) {
			if !json.Valid([]byte(l)) || l[0] != '{' {
				t.Errorf("%s -o jsonl has the line %q", line, l)
			}
		}
	}
	do(t, addr, "workflow history a -o jsonl").has(t, 0, `"result":12345678901234567890`)
	do(t, addr, "workflow history a -o json --timeline").has(t, 2, "picture")
}

func TestWrongUseSaysWhatToDo(t *testing.T) {
	addr := serve(t)
	for line, parts := range map[string][]string{
		"workflow list -o xml":                           {"table, json, jsonl"},
		"workflow list --status dead":                    {"running, completed"},
		"workflow list --limit 0":                        {"1 to 1000"},
		"workflow list --timeout 0s":                     {"10s"},
		"workflow describe":                              {"one workflow id"},
		"workflow start":                                 {"one workflow type", "queue list"},
		"workflow start T --input {bad":                  {"line 1, column 2", "keys and texts need quotes"},
		"workflow start T --input tea":                   {"line 1, column 2", "quotes"},
		"workflow start T --input [1,":                   {"too early", "3 bytes"},
		"workflow start T --input 1 --input-file x":      {"give one"},
		"workflow start T --input-file /no/such/file":    {"/no/such/file"},
		"workflow start T --input-file /dev/null":        {"is empty", "give null"},
		"workflow start T --on-conflict maybe":           {"use-existing"},
		"workflow start T --on-reuse maybe":              {"if-not-completed"},
		"workflow start T --input 1 --namespace " + long: {"namespace"},
	} {
		do(t, addr, line).has(t, 2, parts...)
	}
	do(t, addr, "workflow describe nobody").has(t, 3, "nobody", "engined workflow list")
	do(t, addr, "workflow result nobody").has(t, 3)
	do(t, addr, "workflow describe a --run-id x --namespace other").has(t, 3, "engined workflow list --namespace other")
	do(t, "127.0.0.1:1", "workflow list --timeout 200ms").has(t, 4, "127.0.0.1:1", "connection refused", "engined dev")
}

var long = strings.Repeat("n", 2000)

func TestAnInputFromAFileIsPassedOnAsItIs(t *testing.T) {
	addr := serve(t)
	path := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(path, []byte("{\"b\": 1.10, \"a\":\"<&>\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, addr, "workflow start T --id a --input-file "+path).has(t, 0)
	do(t, addr, "workflow history a -o jsonl").has(t, 0, `"input":{"b":1.10,"a":"<&>"}`)
}
