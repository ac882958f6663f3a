package replay_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/engined/engined/internal/replay"
	"github.com/engined/engined/sdk/workflow"
)

func TestWhoeverWatchesSeesWhichInputIsFolded(t *testing.T) {
	var at atomic.Int64
	var seen []int64
	body := workflow.Bind(func(ctx workflow.Context, _ string) (string, error) {
		for range 3 {
			seen = append(seen, at.Load())
			_ = workflow.Sleep(ctx, time.Second)
		}
		seen = append(seen, at.Load())
		return "", nil
	}, nil)
	e := newEngineOf(t, body, replay.Config{Position: &at}, "")
	e.fold()
	for _, op := range []string{"#1", "#2", "#3"} {
		e.fired(op)
	}
	if want := []int64{1, 3, 5, 7}; !slices.Equal(seen, want) {
		t.Errorf("live folds saw the inputs %v, want %v", seen, want)
	}
	seen = nil
	replayed(t, e)
	if want := []int64{1, 3, 5, 7}; !slices.Equal(seen, want) {
		t.Errorf("a replay saw the inputs %v, want %v", seen, want)
	}
}
