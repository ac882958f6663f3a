// Command planted plants known bugs, one after another, in copies of the last
// commit, and demands that a layer of verification catches each:
//
//	go run ./test/planted [-only pattern] [-seed n] [-budget 3m]
//	go run ./test/planted -pick 3
//
// A bug is a patch in test/planted/patches. It must apply and compile, and a layer
// that its head names must say what is wrong, at a seed that nobody chose. The same
// layers are run without any patch and must pass, since a layer that always fails
// catches everything. A bug that is not caught means that the layer is too weak.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/engined/engined/test/verify/layer"
	"github.com/engined/engined/test/verify/ledger"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		stop()
		os.Exit(1)
	}
}

// garden is what the bugs are planted in.
type garden struct {
	dir    string
	commit string
	budget time.Duration
	seed   uint64 // 0: another one each time
	copies chan *scratch
	out    io.Writer
	mu     sync.Mutex // of out
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("planted", flag.ContinueOnError)
	only := flags.String("only", "", "a regular expression of the names of patches")
	pick := flags.Int("pick", 0, "take so many of them, whichever; 0 is all")
	seed := flags.Uint64("seed", 0, "the seed of each layer; 0 is one that nobody chose")
	budget := flags.Duration("budget", 3*time.Minute, "how long a layer may look for a bug")
	parallel := flags.Int("parallel", runtime.NumCPU(), "how many copies there are")
	root := flags.String("root", ".", "the project")
	record := flags.Bool("record", false, "write the results into docs/VERIFICATION.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, err := patches(filepath.Join(*root, "test/planted/patches"))
	if err != nil {
		return err
	}
	chosen, err := choose(all, *only, *pick)
	if err != nil {
		return err
	}
	g := &garden{budget: *budget, seed: *seed, copies: make(chan *scratch, *parallel), out: out}
	if g.dir, err = os.MkdirTemp("", "planted"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(g.dir) }()
	if err := g.prepare(ctx, *root); err != nil {
		return err
	}
	results, err := g.tryAll(ctx, chosen)
	if *record && ctx.Err() == nil {
		stay := func(name string) bool {
			return slices.ContainsFunc(all, func(p patch) bool { return p.name == name })
		}
		err = errors.Join(err, ledger.AddPlanted(*root, results, stay))
	}
	return err
}

// choose takes the patches that a pattern names, and of them as many as asked for.
func choose(all []patch, only string, pick int) ([]patch, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	var chosen []patch
	for _, p := range all {
		if pattern.MatchString(p.name) {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no patch is named like %q", only)
	}
	if pick > 0 && pick < len(chosen) {
		rand.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:pick]
	}
	return chosen, nil
}

// prepare makes the copies.
func (g *garden) prepare(ctx context.Context, root string) error {
	for i := range cap(g.copies) {
		s, err := newScratch(ctx, root, filepath.Join(g.dir, fmt.Sprint("copy", i)))
		if err != nil {
			return err
		}
		if g.commit, err = s.git(ctx, "rev-parse", "HEAD"); err != nil {
			return err
		}
		g.copies <- s
	}
	return nil
}

// tryAll runs the layers without a bug, then each bug. What failed is in the error.
func (g *garden) tryAll(ctx context.Context, chosen []patch) ([]ledger.Planted, error) {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		results []ledger.Planted
		wrong   []error
	)
	each := func(do func(s *scratch) (*ledger.Planted, error)) {
		wg.Go(func() {
			s := <-g.copies
			defer func() { g.copies <- s }()
			if ctx.Err() != nil {
				return
			}
			r, err := do(s)
			mu.Lock()
			defer mu.Unlock()
			if r != nil {
				results = append(results, *r)
			}
			if err != nil {
				wrong = append(wrong, err)
			}
		})
	}
	for _, l := range used(chosen) {
		each(func(s *scratch) (*ledger.Planted, error) { return nil, g.control(ctx, s, l) })
	}
	// The copies are clean until the last of these has ended.
	wg.Wait()
	for _, p := range chosen {
		each(func(s *scratch) (*ledger.Planted, error) { return g.try(ctx, s, p) })
	}
	wg.Wait()
	g.say("%d of %d planted bugs were caught", caught(results), len(chosen))
	return results, errors.Join(append(wrong, ctx.Err())...)
}

// used are the layers that the patches name.
func used(chosen []patch) []layer.Layer {
	var all []layer.Layer
	for _, l := range layer.Layers {
		names := func(p patch) bool {
			return slices.ContainsFunc(p.layers, func(o layer.Layer) bool { return o.Name == l.Name })
		}
		if slices.ContainsFunc(chosen, names) {
			all = append(all, l)
		}
	}
	return all
}

func caught(results []ledger.Planted) int {
	n := 0
	for _, r := range results {
		if r.Caught != "" {
			n++
		}
	}
	return n
}

// control fails if the layer finds a bug where none is planted.
func (g *garden) control(ctx context.Context, s *scratch, l layer.Layer) error {
	r, err := g.run(ctx, s, l, g.drawn())
	if err != nil {
		return fmt.Errorf("without a bug: %w", err)
	}
	if !r.Passed {
		g.say("FAIL  without a bug: %s, seed %d: %s", l.Name, r.Seed, r.Verdict)
		return fmt.Errorf("%s fails without a bug, seed %d: %s\n%s", l.Name, r.Seed, r.Verdict, r.Last)
	}
	g.say("ok    without a bug: %s passes, seed %d, %d runs in %.1f s", l.Name, r.Seed, r.Runs, r.Took.Seconds())
	return nil
}

// try plants a bug and looks if it is caught.
func (g *garden) try(ctx context.Context, s *scratch, p patch) (*ledger.Planted, error) {
	if err := s.plant(ctx, p.file); err != nil {
		g.say("FAIL  %s does not apply", p.name)
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	result := &ledger.Planted{
		Patch: p.name, Rule: p.rule, What: p.what, Seed: g.drawn(), Commit: g.commit,
		Date: time.Now().UTC().Format("2006-01-02 15:04"),
	}
	for _, l := range p.layers {
		result.Layers = append(result.Layers, l.Name)
		r, err := g.run(ctx, s, l, result.Seed)
		if err != nil {
			g.say("FAIL  %s cannot be tried", p.name)
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		result.Seconds += r.Took.Seconds()
		if r.Caught() {
			result.Caught, result.Said = l.Name, r.Verdict
			g.say("ok    %s: %s, seed %d, %.1f s: %s", p.name, l.Name, result.Seed, result.Seconds, r.Verdict)
			return result, nil
		}
		if !r.Passed {
			g.say("      %s: %s failed, but did not say what is wrong:\n%s", p.name, l.Name, r.Last)
		}
	}
	g.say("FAIL  %s was not caught by %v in %.0f s, seed %d", p.name, result.Layers, result.Seconds, result.Seed)
	return result, fmt.Errorf("%s was not caught (%s); again with: go run ./test/planted -only '^%s$' -seed %d",
		p.name, p.what, p.name, result.Seed)
}

// run builds and runs a layer in a copy.
func (g *garden) run(ctx context.Context, s *scratch, l layer.Layer, seed uint64) (layer.Result, error) {
	binary := s.dir + "." + l.Name
	if err := l.Build(ctx, s.dir, binary); err != nil {
		return layer.Result{}, err
	}
	return l.Run(ctx, layer.Order{Root: s.dir, Binary: binary, Budget: g.budget, Seed: seed, Out: io.Discard})
}

// drawn is a seed: what was asked for, or one that nobody chose.
func (g *garden) drawn() uint64 {
	if g.seed != 0 {
		return g.seed
	}
	return rand.Uint64()>>24 | 1
}

func (g *garden) say(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fmt.Fprintf(g.out, format+"\n", args...)
}
