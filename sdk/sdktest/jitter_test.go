package sdktest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/internal/retry"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

func fails(context.Context, int) (int, error) { return 0, errors.New("not today") }

const tries = 12 // so that the waits after attempts 0 to 10 are seen

func failing(ctx workflow.Context, n int) (int, error) {
	return workflow.Do(ctx, fails, n, workflow.Retry{Attempts: tries})
}

// The waits between the attempts of activities that really fail, as the terminal
// event lists them, are uniform below their ceilings: full jitter. Equal jitter
// with the same ceilings fails the same test.
func TestRetriesWaitWithFullJitter(t *testing.T) {
	var full []float64 // waits as fractions of their ceilings
	synctest.Test(t, func(t *testing.T) { full = waitsOf(t, 200) })
	if want := 200 * (tries - 1); len(full) != want {
		t.Fatalf("%d waits were seen, want %d", len(full), want)
	}
	if d, limit := kolmogorov(full); d > limit {
		t.Errorf("the waits are not uniform below their ceilings: D = %.4f, limit %.4f", d, limit)
	}
	equal := make([]float64, len(full))
	for i, u := range full {
		equal[i] = 0.5 + u/2
	}
	if d, limit := kolmogorov(equal); d <= limit {
		t.Errorf("the test does not tell equal jitter from full: D = %.4f, limit %.4f", d, limit)
	}
}

func waitsOf(t *testing.T, runs int) []float64 {
	env := sdktest.New(t, sdktest.Options{Seed: 42, Worker: worker.Options{Slots: runs}})
	worker.Workflow(env.Worker, failing)
	worker.Activity(env.Worker, fails)
	env.Start()
	for i := range runs {
		_, err := client.Start(t.Context(), env.Client, failing, i, client.ID(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
	}
	var fractions []float64
	for i := range runs {
		run := client.Get[int](env.Client, fmt.Sprint(i), "")
		if _, err := run.Result(t.Context()); err == nil {
			t.Fatal("void: a failing activity succeeded")
		}
		fractions = append(fractions, waitsIn(t, run)...)
	}
	return fractions
}

func waitsIn(t *testing.T, run *client.Run[int]) (fractions []float64) {
	for e, err := range run.History(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		log := e.GetActivityFailed().GetTally().GetLog()
		for n := 1; n < len(log); n++ {
			wait := time.Duration(log[n].Started - log[n-1].Ended)
			ceiling := retry.Policy{}.Ceiling(n - 1)
			if wait < 0 || wait > ceiling {
				t.Errorf("the wait after attempt %d is %v, its ceiling %v", n-1, wait, ceiling)
			}
			fractions = append(fractions, float64(wait)/float64(ceiling))
		}
	}
	return fractions
}

// kolmogorov returns the Kolmogorov-Smirnov distance of the sample from the
// uniform distribution on [0, 1], and its critical value at the 1 % level.
func kolmogorov(sample []float64) (d, limit float64) {
	s := slices.Sorted(slices.Values(sample))
	n := float64(len(s))
	for i, u := range s {
		d = max(d, float64(i+1)/n-u, u-float64(i)/n)
	}
	return d, 1.628 / math.Sqrt(n)
}
