package sdktest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// Post holds what the activity needs: in a test, something that can be looked at.
// The worker calls it from goroutines of its own, hence the lock.
type Post struct {
	opens time.Time

	mu   sync.Mutex
	sent []string
}

var post *Post

func (p *Post) Send(_ context.Context, text string) error {
	if time.Now().Before(p.opens) {
		return errors.New("the post office is closed")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, text)
	return nil
}

func (p *Post) Sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

// Remind is the workflow to be tested. It lasts for three days.
func Remind(ctx workflow.Context, who string) (int, error) {
	for day := range 3 {
		if err := workflow.Sleep(ctx, 24*time.Hour); err != nil {
			return day, err
		}
		if err := workflow.Exec(ctx, post.Send, fmt.Sprintf("day %d: water the plants, %s", day+1, who)); err != nil {
			return day, err
		}
	}
	return 3, nil
}

// In a test file the functions below are TestRemind and its like, and get their t
// from go test. Time is virtual inside the bubble: three days pass at once.
func Example() {
	t := new(testing.T)
	synctest.Test(t, func(t *testing.T) {
		env := sdktest.New(t)
		p := &Post{}
		worker.Workflow(env.Worker, Remind)
		env.Worker.Activities(p)
		env.Start()
		began := time.Now()
		n, err := client.Execute(t.Context(), env.Client, Remind, "Ada", client.ID("plants"))
		if err != nil {
			t.Error(err)
		}
		fmt.Println(n, len(p.Sent()), time.Since(began).Round(time.Hour))
	})
	// Output:
	// 3 3 72h0m0s
}

// What happens in the middle: the test lets time pass and looks.
func ExampleEnv_Pass() {
	t := new(testing.T)
	synctest.Test(t, func(t *testing.T) {
		env := sdktest.New(t)
		p := &Post{opens: time.Now().Add(24*time.Hour + 2*time.Minute)}
		worker.Workflow(env.Worker, Remind)
		env.Worker.Activities(p)
		env.Start()
		run, err := client.Start(t.Context(), env.Client, Remind, "Ada")
		if err != nil {
			t.Fatal(err)
		}
		env.Pass(24*time.Hour + time.Minute)
		fmt.Println(p.Sent()) // it was tried, and will be tried again
		env.Pass(10 * time.Minute)
		fmt.Println(p.Sent())

		if err := run.Cancel(t.Context(), "Ada has come home"); err != nil {
			t.Fatal(err)
		}
		_, err = run.Result(t.Context())
		fmt.Println(errors.Is(err, client.ErrCanceled))
	})
	// Output:
	// []
	// [day 1: water the plants, Ada]
	// true
}

// Engine and worker crash while the run sleeps. What was committed goes on.
func ExampleEnv_Restart() {
	t := new(testing.T)
	synctest.Test(t, func(t *testing.T) {
		env := sdktest.New(t)
		p := &Post{}
		start := func() {
			worker.Workflow(env.Worker, Remind)
			env.Worker.Activities(p)
			env.Start()
		}
		start()
		if _, err := client.Start(t.Context(), env.Client, Remind, "Ada", client.ID("plants")); err != nil {
			t.Fatal(err)
		}
		env.Pass(36 * time.Hour)
		env.Restart()
		start()
		n, err := client.Get[int](env.Client, "plants", "").Result(t.Context())
		fmt.Println(n, len(p.Sent()), err)
	})
	// Output:
	// 3 3 <nil>
}
