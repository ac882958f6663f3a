package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/engined/engined/engine/embed"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/failure"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// ErrEmpty keeps its identity through the history: it is registered.
var ErrEmpty = errors.New("there is nobody to greet")

func init() { failure.Register("greetings.Empty", ErrEmpty) }

func greeting(_ context.Context, name string) (string, error) {
	if name == "" {
		return "", activity.Final(ErrEmpty)
	}
	return "Hello, " + name + "!", nil
}

// Greet is a workflow of one step.
func Greet(ctx workflow.Context, name string) (string, error) {
	return workflow.Do(ctx, greeting, name)
}

// Nap is a workflow that would last for a day.
func Nap(ctx workflow.Context, _ string) (string, error) {
	return "rested", workflow.Sleep(ctx, 24*time.Hour)
}

// open starts an engine in this process with a worker of the examples' workflows.
// A program that calls a server has client.Dial instead, and nothing else changes.
func open() (c *client.Client, end func()) {
	dir, err := os.MkdirTemp("", "engined-example-")
	if err != nil {
		log.Fatal(err)
	}
	ctx, quiet := context.Background(), slog.New(slog.DiscardHandler)
	eng, err := embed.Open(ctx, embed.Options{Path: filepath.Join(dir, "x.db"), Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	w := eng.Worker(worker.Options{Logger: quiet})
	worker.Workflow(w, Greet)
	worker.Workflow(w, Nap)
	worker.Activity(w, greeting)
	if err := w.Start(ctx); err != nil {
		log.Fatal(err)
	}
	return eng.Client(client.Options{}), func() {
		if err := errors.Join(eng.Close(ctx), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}

// A client of an engine elsewhere. Nothing is connected before the first call.
func ExampleDial() {
	c, err := client.Dial("engine-1.example:7450,engine-2.example", client.Options{Namespace: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Namespace())

	_, err = client.Dial("engine.example:http", client.Options{})
	fmt.Println(client.IsInvalidArgument(err), err)
	// Output:
	// shop
	// true dial: the address "engine.example:http" has a port that is no number from 1 to 65535; it should be like engine.example:7450, several are separated by commas
}

// A start that may be repeated: the order's id is the workflow's id, so that an
// order has one run at a time, and it is the request's id as well, so that the
// same order means the same run also afterwards.
func ExampleStart() {
	c, end := open()
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	run, err := client.Start(ctx, c, Greet, "Ada", client.ID("order-1"), client.RequestID("order-1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))

	same, err := client.Start(ctx, c, Greet, "Ada", client.ID("order-1"), client.RequestID("order-1"))
	fmt.Println(same.RunID == run.RunID, err)

	// Another request for the same id, after the run has completed:
	_, err = client.Start(ctx, c, Greet, "Bob", client.ID("order-1"), client.OnReuse(client.AllowIfNotCompleted))
	fmt.Println(client.IsAlreadyExists(err))
	// Output:
	// Hello, Ada! <nil>
	// true <nil>
	// true
}

// The workflow id has a run that is open.
func ExampleOnConflict() {
	c, end := open()
	defer end()
	ctx := context.Background()

	run, err := client.Start(ctx, c, Nap, "", client.ID("nap"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Start(ctx, c, Nap, "", client.ID("nap"))
	var e *client.Error
	fmt.Println(errors.As(err, &e) && client.IsAlreadyExists(err) && e.RunID == run.RunID)

	same, err := client.Start(ctx, c, Nap, "", client.ID("nap"), client.OnConflict(client.UseExisting))
	fmt.Println(same.RunID == run.RunID, same.Started, err)
	// Output:
	// true
	// true false <nil>
}

func ExampleExecute() {
	c, end := open()
	defer end()
	fmt.Println(client.Execute(context.Background(), c, Greet, "Ada", client.ID("greet-ada")))
	// Output:
	// Hello, Ada! <nil>
}

// What a run's end looks like to who waits for it.
func ExampleRun_Result_errors() {
	c, end := open()
	defer end()
	ctx := context.Background()

	// The workflow returned an error: it is in the tree of a RunError.
	_, err := client.Execute(ctx, c, Greet, "", client.ID("nobody"))
	var ended *client.RunError
	fmt.Println(errors.As(err, &ended), ended.Status == pb.Status_STATUS_FAILED, errors.Is(err, ErrEmpty))

	// Somebody ended the run.
	nap, err := client.Start(ctx, c, Nap, "", client.ID("nap"))
	if err != nil {
		log.Fatal(err)
	}
	if err := nap.Terminate(ctx, "enough"); err != nil {
		log.Fatal(err)
	}
	_, err = nap.Result(ctx)
	fmt.Println(errors.Is(err, client.ErrTerminated))

	// There is no such run.
	_, err = client.Get[string](c, "unheard-of", "").Result(ctx)
	fmt.Println(client.IsNotFound(err))

	// Who waits has no more time. The run goes on.
	again, err := client.Start(ctx, c, Nap, "", client.ID("nap"))
	if err != nil {
		log.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err = again.Result(short)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true true true
	// true
	// true
	// true
}

// The events of a run as they become durable, until it has ended.
func ExampleRun_Follow() {
	c, end := open()
	defer end()
	ctx := context.Background()

	run, err := client.Start(ctx, c, Greet, "Ada", client.ID("greet-ada"))
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range run.Follow(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch {
		case e.GetWorkflowStarted() != nil:
			fmt.Println(e.Id, "started", e.GetWorkflowStarted().Type)
		case e.GetActivityScheduled() != nil:
			fmt.Println(e.Id, "scheduled", e.GetActivityScheduled().Type)
		case e.GetActivityCompleted() != nil:
			fmt.Println(e.Id, "completed the step")
		case e.GetWorkflowCompleted() != nil:
			fmt.Println(e.Id, "completed")
		}
	}
	// Output:
	// 1 started Greet
	// 2 scheduled greeting
	// 3 completed the step
	// 4 completed
}
