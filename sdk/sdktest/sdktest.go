// Package sdktest lets users test workflows on the real engine: the same core,
// the same folding machine, the same worker, on a store in memory and under
// virtual time. A workflow that sleeps for a month is tested in a millisecond.
//
//	func TestPlaceOrder(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			env := sdktest.New(t)
//			worker.Workflow(env.Worker, PlaceOrder)
//			env.Worker.Activities(&Shop{...})
//			env.Start()
//			receipt, err := client.Execute(t.Context(), env.Client, PlaceOrder, order)
//			...
//		})
//	}
//
// It owns nothing but the wiring; there is no second engine for tests.
package sdktest

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/internal/clock"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/worker"
)

// Options of an Env. The zero value is good for most tests.
type Options struct {
	// Worker sets up Env.Worker.
	Worker worker.Options
	// Client sets up Env.Client, its codec above all.
	Client client.Options
	// Seed feeds what the engine draws at random, such as the jitter of retries;
	// equal seeds draw equal numbers.
	Seed uint64
	// Logger gets the logs of engine, worker and workflows. If it is nil, what is a
	// warning or worse goes to the test's log.
	Logger *slog.Logger
}

// Env is an engine with a worker and a client, for one test.
type Env struct {
	// Client starts and follows runs. To await a run that is held gives a *HeldError
	// after a minute or two of virtual time.
	Client *client.Client
	// Worker gets the test's workflows and activities; Start starts it.
	Worker *worker.Worker
	// Engine is the engine itself.
	Engine *engine.Engine

	t       testing.TB
	o       Options
	store   *memstore.Store
	workers []*worker.Worker
	log     *testLog // nil if the test has its own
}

// New makes an environment inside a testing/synctest bubble; outside of one it
// fails the test. Everything stops when the test ends.
func New(t testing.TB, opts ...Options) *Env {
	t.Helper()
	if !inBubble() {
		t.Fatal("sdktest.New must be called inside synctest.Test(t, func(t *testing.T) { … }), so that time is virtual")
	}
	env := &Env{t: t, store: memstore.New(4)}
	if len(opts) > 0 {
		env.o = opts[0]
	}
	if env.o.Logger == nil {
		env.log = &testLog{t: t}
		env.o.Logger = slog.New(slog.NewTextHandler(env.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	env.open()
	env.Worker = env.NewWorker(env.o.Worker)
	t.Cleanup(func() {
		env.close()
		if env.log != nil {
			env.log.ended.Store(true)
		}
	})
	return env
}

// inBubble says whether the caller runs under virtual time.
func inBubble() (ok bool) {
	// Wait panics outside a bubble; that is all that can be asked.
	defer func() { ok = recover() == nil }()
	synctest.Wait()
	return true
}

func (e *Env) open() {
	core, err := engine.Open(context.Background(), engine.Config{
		Store: e.store, Clock: clock.Runtime(), Logger: e.o.Logger, Alone: true, Random: seeded(e.o.Seed),
	})
	if err != nil {
		e.t.Fatalf("open the engine: %v", err)
	}
	e.Engine = core
	e.Client = client.New(service{core}, e.o.Client)
}

// seeded returns a source that several goroutines may use.
func seeded(seed uint64) func() uint64 {
	var mu sync.Mutex
	source := rand.NewPCG(seed, seed)
	return func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return source.Uint64()
	}
}

// NewWorker returns another worker of the engine, for the test to register with
// and to start.
func (e *Env) NewWorker(o worker.Options) *worker.Worker {
	if o.Logger == nil {
		o.Logger = e.o.Logger
	}
	w := worker.New(conn{e.Engine}, o)
	e.workers = append(e.workers, w)
	return w
}

// Start starts Env.Worker.
func (e *Env) Start() {
	e.t.Helper()
	if err := e.Worker.Start(context.Background()); err != nil {
		e.t.Fatalf("start the worker: %v", err)
	}
}

// Pass lets virtual time pass: everything that falls due within d happens.
func (e *Env) Pass(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

// Restart replaces the engine and its workers, as after a crash: what was not
// committed is gone, and what was goes on. Env.Engine, Env.Client and Env.Worker
// are new; the test registers with Env.Worker again and starts it.
func (e *Env) Restart() {
	e.t.Helper()
	next := e.store.Reopen() // from here on the old engine can write nothing
	e.close()
	e.store = next
	e.open()
	e.Worker = e.NewWorker(e.o.Worker)
}

// stopTime bounds the drain of workers, in virtual time.
const stopTime = time.Second

func (e *Env) close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	for _, w := range e.workers {
		// A worker that was never started, or whose engine was cut off, has
		// nothing to say that the test wants to know.
		_ = w.Stop(ctx)
	}
	e.workers = nil
	_ = e.Engine.Close(context.Background())
}

type conn struct{ e *engine.Engine }

func (c conn) Work(ctx context.Context) (worker.Stream, error) { return c.e.Work(ctx), nil }
