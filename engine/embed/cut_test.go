package embed_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/faultdriver"
	"github.com/engined/engined/engine/store/sqlite/mattn"
	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/clock"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// shop is the services of the scripted saga. Its ledger is what the test judges
// by: every call that arrived, in order, and every effect, once a key.
type shop struct {
	shipFails bool

	mu      sync.Mutex
	life    int // how often the engine was started
	calls   []call
	effects map[string]string // key → step
	wrong   []string
}

type call struct {
	step string
	life int
}

func (s *shop) effect(ctx context.Context, step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := activity.GetInfo(ctx).Key
	if was, ok := s.effects[key]; ok && was != step {
		s.wrong = append(s.wrong, fmt.Sprintf("key %s is used by %s and %s", key, was, step))
	}
	s.effects[key] = step
	s.calls = append(s.calls, call{step, s.life})
}

func (s *shop) Charge(ctx context.Context, order string) (string, error) {
	s.effect(ctx, "charge")
	return "payment of " + order, nil
}

func (s *shop) Refund(ctx context.Context, u saga.Undo[string, string]) error {
	s.effect(ctx, "refund")
	if u.Outcome == saga.Done && u.Result != "payment of "+u.Input {
		s.wrong = append(s.wrong, "the refund was told of "+u.Result)
	}
	return nil
}

func (s *shop) Reserve(ctx context.Context, item string) (string, error) {
	s.effect(ctx, "reserve "+item)
	return "slip of " + item, nil
}

func (s *shop) Release(ctx context.Context, u saga.Undo[string, string]) error {
	s.effect(ctx, "release "+u.Input)
	return nil
}

func (s *shop) Ship(ctx context.Context, slips []string) (string, error) {
	s.effect(ctx, "ship")
	if s.shipFails {
		return "", activity.Fail("nobody delivers there")
	}
	return "parcel", nil
}

func (s *shop) Mail(ctx context.Context, parcel string) error {
	s.effect(ctx, "mail")
	return nil
}

var theShop *shop

func placeOrder(ctx workflow.Context, order string) (string, error) {
	if _, err := saga.Do(ctx, theShop.Charge, order, theShop.Refund); err != nil {
		return "", err
	}
	slips, err := saga.Map(ctx, theShop.Reserve, []string{"a", "b", "c"}, theShop.Release)
	if err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, time.Minute); err != nil {
		return "", err
	}
	parcel, err := workflow.Do(ctx, theShop.Ship, slips)
	if err != nil {
		return "", err
	}
	saga.Commit(ctx)
	return parcel, workflow.Exec(ctx, theShop.Mail, parcel)
}

// order says, for each step, which steps follow only when it has completed.
var order = map[string]int{
	"charge": 1, "reserve a": 2, "reserve b": 2, "reserve c": 2, "ship": 3, "mail": 4,
	"release a": 4, "release b": 4, "release c": 4, "refund": 5,
}

// base is a store that can be cut off at a commit and opened again.
type base interface {
	// open opens the store; it is cut off before or after commit number at,
	// never if at is 0. cut is closed then.
	open(t *testing.T, at int, before bool) (st store.Store, cut <-chan struct{})
	// commits counts the commits since open.
	commits() int
}

func TestMemoryCutAtEveryCommitGoesOnWhereItWas(t *testing.T) {
	everyCut(t, func(*testing.T) base { return &memory{} })
}

func TestSQLiteCutAtEveryCommitGoesOnWhereItWas(t *testing.T) {
	everyCut(t, func(t *testing.T) base { return &file{path: filepath.Join(t.TempDir(), "x.db")} })
}

func everyCut(t *testing.T, fresh func(*testing.T) base) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("ship fails %v", fails), func(t *testing.T) {
			n := 0
			synctest.Test(t, func(t *testing.T) { n = cutAt(t, fresh(t), fails, 0, false) })
			if n < 6 {
				t.Fatalf("void: the whole saga took %d commits", n)
			}
			for at := 1; at <= n; at++ {
				for _, before := range []bool{true, false} {
					t.Run(fmt.Sprintf("commit %d of %d, before %v", at, n, before), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { cutAt(t, fresh(t), fails, at, before) })
					})
				}
			}
		})
	}
}

// cutAt runs the saga, cuts the engine off at a commit, starts it again, and
// judges the services' ledger. It returns the commits of the first life.
func cutAt(t *testing.T, b base, fails bool, at int, before bool) int {
	s := &shop{shipFails: fails, effects: map[string]string{}}
	st, cut := b.open(t, at, before)
	n := 0
	if at > 0 {
		live(t, st, s, func(ctx context.Context, c *client.Client) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				select {
				case <-cut:
					cancel()
				case <-ctx.Done():
				}
			}()
			_, _ = client.Execute(ctx, c, placeOrder, "order", client.ID("order"), client.RequestID("request"))
			select {
			case <-cut:
			default:
				t.Fatalf("void: the engine was never cut off")
			}
		})
		s.life++
		st, _ = b.open(t, 0, false)
	}
	live(t, st, s, func(ctx context.Context, c *client.Client) {
		_, err := client.Execute(ctx, c, placeOrder, "order", client.ID("order"), client.RequestID("request"))
		judge(t, s, err)
		n = b.commits()
		checkHistory(t, ctx, c)
	})
	return n
}

// live runs an engine with a worker of the shop for the time of f.
func live(t *testing.T, st store.Store, s *shop, f func(context.Context, *client.Client)) {
	liveWith(t, st, s, func(w *worker.Worker) { worker.Workflow(w, placeOrder) }, f)
}

func liveWith(t *testing.T, st store.Store, s *shop, register func(*worker.Worker), f func(context.Context, *client.Client)) {
	quiet := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	e, err := engine.Open(ctx, engine.Config{Store: st, Clock: clock.Runtime(), Logger: quiet, Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(local{e}, worker.Options{Logger: quiet})
	register(w)
	w.Activities(s)
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	f(ctx, client.New(e, client.Options{}))
	stop, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	_ = w.Stop(stop)
	_ = e.Close(context.Background())
}

type local struct{ e *engine.Engine }

func (l local) Work(ctx context.Context) (worker.Stream, error) { return l.e.Work(ctx), nil }

// judge holds the ledger against what must be.
func judge(t *testing.T, s *shop, err error) {
	var run *client.RunError
	if s.shipFails != errors.As(err, &run) {
		t.Errorf("the order ended with %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.wrong {
		t.Error(w)
	}
	want := map[string]int{"charge": 1, "reserve a": 1, "reserve b": 1, "reserve c": 1, "ship": 1}
	if s.shipFails {
		for _, step := range []string{"release a", "release b", "release c", "refund"} {
			want[step] = 1
		}
	} else {
		want["mail"] = 1
	}
	got := map[string]int{}
	for _, step := range s.effects {
		got[step]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("effects %v, want %v", got, want)
	}
	// A step after which others ran in the first life had completed: it must
	// not have been called in the second.
	furthest := 0
	for _, c := range s.calls {
		if c.life == 0 {
			furthest = max(furthest, order[c.step])
		} else if order[c.step] < furthest {
			t.Errorf("%s ran again although it had completed: %v", c.step, s.calls)
		}
	}
}

func checkHistory(t *testing.T, ctx context.Context, c *client.Client) {
	var events []*pb.Event
	for e, err := range client.Get[string](c, "order", "").History(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	if err := history.Validate(events); err != nil {
		t.Error(err)
	}
}

type memory struct{ st *memstore.Store }

func (m *memory) open(_ *testing.T, at int, before bool) (store.Store, <-chan struct{}) {
	if m.st == nil {
		m.st = memstore.New(2)
	} else {
		m.st = m.st.Reopen()
	}
	cut, n := make(chan struct{}), 0
	if at > 0 {
		m.st.Hook = func(*store.Batch) memstore.Verdict {
			if n++; n != at {
				return memstore.Done()
			}
			close(cut)
			if before {
				return memstore.CutBefore()
			}
			return memstore.CutAfter()
		}
	}
	return m.st, cut
}

func (m *memory) commits() int { return int(m.st.Stats().Commits) }

type file struct {
	path string
	st   *sqlite.Store
}

func (f *file) open(t *testing.T, at int, before bool) (store.Store, <-chan struct{}) {
	rig := faultdriver.New(mattn.Driver())
	st, err := sqlite.Open(t.Context(), sqlite.Config{Path: f.path, Shards: 2, Driver: rig})
	if err != nil {
		t.Fatal(err)
	}
	cut, first := make(chan struct{}), rig.Commits()+1 // the engine's fence
	rig.OnCommit(func(n int) faultdriver.Outcome {
		if at == 0 || n != first+at {
			return faultdriver.Pass()
		}
		close(cut)
		if before {
			return faultdriver.CutBefore()
		}
		return faultdriver.CutAfter()
	})
	f.st = st
	return st, cut
}

func (f *file) commits() int { return int(f.st.Stats().Commits) }
