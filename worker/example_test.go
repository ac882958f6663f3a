package worker_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

type Greeter struct{}

func (*Greeter) Hello(_ context.Context, name string) (string, error) { return "Hello, " + name, nil }

var greeter *Greeter

func Greet(ctx workflow.Context, name string) (string, error) {
	return workflow.Do(ctx, greeter.Hello, name)
}

// A worker process: it serves the engine at an address until it is told to end.
func ExampleDial() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	w, err := worker.Dial("engine.example:7450", worker.Options{Queue: "greetings"})
	if err != nil {
		log.Fatal(err)
	}
	worker.Workflow(w, Greet)
	w.Activities(&Greeter{})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
