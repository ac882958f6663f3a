// Command verify runs the long form of a layer of verification, adds what it did
// to the runs that there were, and writes docs/VERIFICATION.md:
//
//	go run ./test/verify -layer sim -budget 40m [-seed n]
//	go run ./test/verify -write
//
// The code that runs is that of the tree as it is; a tree with changes that are
// in no commit is recorded as such. A run that fails is recorded, too, and is the
// exit code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/engined/engined/test/verify/layer"
	"github.com/engined/engined/test/verify/ledger"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	names := flags.String("layer", "all", "what to run, separated by commas: "+layer.Names())
	budget := flags.Duration("budget", 40*time.Minute, "how long each of them may take")
	seed := flags.Uint64("seed", 0, "the first seed; 0 is one that nobody chose")
	root := flags.String("root", ".", "the project")
	write := flags.Bool("write", false, "write the document from what is recorded, and run nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *write {
		return ledger.Write(*root)
	}
	layers, err := layer.Named(*names)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "verify")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	var failed []error
	for _, l := range layers {
		o := layer.Order{Root: *root, Binary: filepath.Join(scratch, l.Name), Budget: *budget, Seed: *seed, Out: out}
		r, err := record(ctx, l, o)
		if err != nil {
			return err
		}
		if r.Failed > 0 {
			failed = append(failed, fmt.Errorf("%s failed: %s", l.Name, r.Found))
		}
	}
	return errors.Join(failed...)
}

// record runs a layer and writes down what came of it.
func record(ctx context.Context, l layer.Layer, o layer.Order) (ledger.Run, error) {
	r := ledger.Run{Date: time.Now().UTC().Format("2006-01-02 15:04"), Layer: l.Name, Seed: o.Seed}
	var err error
	if r.Commit, r.Dirty, err = state(ctx, o.Root); err != nil {
		return r, err
	}
	if err := l.Build(ctx, o.Root, o.Binary); err != nil {
		return r, err
	}
	result, err := l.Run(ctx, o)
	if err != nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, fmt.Errorf("%s was interrupted, and is not recorded", l.Name)
	}
	fill(&r, result)
	return r, ledger.Add(o.Root, r)
}

// fill takes what a layer has said of itself. One that failed and does not know it
// has failed once.
func fill(r *ledger.Run, result layer.Result) {
	r.Runs, r.Counts, r.Void, r.Failed = result.Runs, result.Counts, result.Void, result.Failed
	r.Seconds = result.Took.Seconds()
	if result.Seed != 0 {
		r.Seed = result.Seed
	}
	if result.Passed {
		return
	}
	r.Failed = max(r.Failed, 1)
	switch {
	case result.Verdict != "":
		r.Found = result.Verdict
	case result.Layer == "":
		r.Found = "it printed no line of what it did: " + result.Last
	default:
		r.Found = result.Last
	}
}

// state tells the commit of the tree, and if the tree is not that.
func state(ctx context.Context, root string) (commit string, dirty bool, err error) {
	head, err := git(ctx, root, "rev-parse", "HEAD")
	if err != nil {
		return "", false, err
	}
	changed, err := git(ctx, root, "status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return "", false, err
	}
	return strings.TrimSpace(head), changes(changed), nil
}

// changes tells if git status lists anything besides what is written here.
func changes(status string) bool {
	for line := range strings.Lines(status) {
		if len(line) > 3 && !slices.Contains(ledger.Written, strings.TrimSpace(line[3:])) {
			return true
		}
	}
	return false
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
