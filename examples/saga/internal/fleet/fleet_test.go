package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/engined/engined/examples/saga/internal/chaos"
	"github.com/engined/engined/examples/saga/internal/fleet"
	"github.com/engined/engined/examples/saga/internal/service"
	"github.com/engined/engined/examples/saga/internal/wire"
)

// scriptEnv holds kinds of faults by endpoint, as JSON: a key's first try meets
// its endpoint's.
const scriptEnv = "FLEET_TEST_SCRIPT"

type script map[string]chaos.Kind

func (s script) At(c chaos.Call) chaos.Fault {
	if c.Try > 1 {
		return chaos.Fault{}
	}
	return chaos.Fault{Kind: s[c.Endpoint]}
}

func (s script) set(t *testing.T) {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(scriptEnv, string(data))
}

func TestMain(m *testing.M) {
	if os.Getenv(service.Env) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func serve() error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	data := os.Getenv(scriptEnv)
	if data == "" {
		return service.Main(context.Background(), os.Stdin, os.Stdout, log)
	}
	c, err := service.ReadConfig(os.Stdin)
	if err != nil {
		return err
	}
	var plan script
	if err := json.Unmarshal([]byte(data), &plan); err != nil {
		return err
	}
	c.Plan = plan
	return service.Run(context.Background(), c, os.Stdin, os.Stdout, log)
}

var shelves = []wire.Shelf{{SKU: "A", Initial: 5}}

func start(t *testing.T, c fleet.Config) *fleet.Fleet {
	t.Helper()
	c.Shelves = shelves
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	// Not t's context: it ends before the cleanup below does.
	f, err := fleet.Start(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// fence grows, as the engine's do.
var fence atomic.Int64

// post makes a call and returns the answer's status, or 0 when there was none.
func post(t *testing.T, f *fleet.Fleet, s wire.Service, key string, request any) int {
	t.Helper()
	endpoint := s.Forward()
	if _, undo := request.(wire.UndoRequest); undo {
		endpoint = s.Undo()
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL(s)+"/"+endpoint, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set(wire.KeyHeader, key)
	req.Header.Set(wire.FenceHeader, strconv.FormatInt(fence.Add(1), 10))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// insist calls until there is an answer.
func insist(t *testing.T, f *fleet.Fleet, s wire.Service, key string, request any) {
	t.Helper()
	for {
		switch status := post(t, f, s, key, request); {
		case status == http.StatusOK:
			return
		case status != 0:
			t.Fatalf("%s by %s: %d", s, key, status)
		case f.Err() != nil:
			t.Fatal(f.Err())
		}
	}
}

func collect(t *testing.T, f *fleet.Fleet) []wire.Ledger {
	t.Helper()
	all, err := f.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func kinds(l wire.Ledger) (all []string) {
	for _, r := range l.Rows {
		all = append(all, r.Kind)
	}
	return all
}

var (
	charge  = wire.ChargeRequest{Order: "o1", Card: "4242424242424242", Cents: 1250}
	reserve = wire.ReserveRequest{Order: "o1", SKU: "A", Quantity: 2}
)

func TestAServiceThatDiesBeforeTheWorkHasNotDoneIt(t *testing.T) {
	script{wire.Charge: chaos.DieBefore}.set(t)
	f := start(t, fleet.Config{})
	url := f.URL(wire.Payments)
	if status := post(t, f, wire.Payments, "k", charge); status != 0 {
		t.Errorf("the call was answered %d", status)
	}
	insist(t, f, wire.Payments, "k", charge)
	l := collect(t, f)[0]
	if got := kinds(l); !slices.Equal(got, []string{wire.Charge}) {
		t.Errorf("the ledger has %q", got)
	}
	if len(l.Faults) != 1 || l.Faults[0].Kind != string(chaos.DieBefore) || l.Starts != 2 || f.Deaths(wire.Payments) != 1 {
		t.Errorf("faults %v, %d starts, %d deaths", l.Faults, l.Starts, f.Deaths(wire.Payments))
	}
	if f.URL(wire.Payments) != url {
		t.Errorf("it listened at %s and is at %s", url, f.URL(wire.Payments))
	}
}

func TestAServiceThatDiesAfterTheWorkHasDoneItOnce(t *testing.T) {
	script{wire.Reserve: chaos.DieAfter}.set(t)
	f := start(t, fleet.Config{})
	if status := post(t, f, wire.Stock, "k", reserve); status != 0 {
		t.Errorf("the call was answered %d", status)
	}
	insist(t, f, wire.Stock, "k", reserve)
	l := collect(t, f)[1]
	if got := kinds(l); !slices.Equal(got, []string{wire.Reserve, wire.RowRepeat}) {
		t.Errorf("the ledger has %q", got)
	}
	if len(l.Faults) != 1 || l.Faults[0].Kind != string(chaos.DieAfter) || l.Starts != 2 {
		t.Errorf("faults %v, %d starts", l.Faults, l.Starts)
	}
	if len(l.Shelves) != 1 || l.Shelves[0].Left != 3 {
		t.Errorf("shelves %v", l.Shelves)
	}
}

func TestACallThatWaitsForItsUndoComesThoughTheUndoKilledTheService(t *testing.T) {
	script{wire.Reserve: chaos.LateAfterUndo, wire.Release: chaos.DieAfter}.set(t)
	f := start(t, fleet.Config{})
	undo := wire.UndoRequest{Order: "o1", ForwardKey: "k", Outcome: wire.Unknown}
	if status := post(t, f, wire.Stock, "k", reserve); status != 0 {
		t.Errorf("the call was answered %d", status)
	}
	if status := post(t, f, wire.Stock, "u", undo); status != 0 {
		t.Errorf("the undo was answered %d", status)
	}
	insist(t, f, wire.Stock, "u", undo)
	// Read as it is: Collect would bring what is held back.
	resp, err := http.Get(f.URL(wire.Stock) + wire.LedgerPath)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var l wire.Ledger
	if err := json.NewDecoder(resp.Body).Decode(&l); err != nil {
		t.Fatal(err)
	}
	if got := kinds(l); !slices.Equal(got, []string{wire.RowSeal, wire.RowRefused, wire.RowRepeat}) || l.Held != 0 {
		t.Errorf("the ledger has %q, %d calls are held back", got, l.Held)
	}
	if len(l.Faults) != 2 || l.Faults[1].Kind != string(chaos.LateAfterUndo) {
		t.Errorf("faults %v", l.Faults)
	}
}

func TestAKilledServiceComesBackWithItsLedger(t *testing.T) {
	died := make(chan wire.Service, 10)
	f := start(t, fleet.Config{Died: func(s wire.Service, _ error) { died <- s }})
	insist(t, f, wire.Payments, "k", charge)
	for range 3 {
		if err := f.Kill(wire.Payments); err != nil {
			t.Fatal(err)
		}
		if s := <-died; s != wire.Payments {
			t.Errorf("%s has died", s)
		}
		insist(t, f, wire.Payments, "k", charge)
	}
	l := collect(t, f)[0]
	if got := kinds(l); !slices.Equal(got, []string{wire.Charge, wire.RowRepeat, wire.RowRepeat, wire.RowRepeat}) {
		t.Errorf("the ledger has %q", got)
	}
}

func TestLedgersComeInTheOrderOfTheServices(t *testing.T) {
	seed := uint64(1)
	f := start(t, fleet.Config{Seed: &seed})
	var got []wire.Service
	for _, l := range collect(t, f) {
		got = append(got, l.Service)
	}
	if !slices.Equal(got, wire.Services()) {
		t.Error(got)
	}
}

func TestAServiceThatCannotStartSaysWhy(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "payments.db"), []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := fleet.Start(t.Context(), fleet.Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "payments") || !strings.Contains(err.Error(), "file is not a database") {
		t.Error(err)
	}
}

func TestAServiceThatCannotStartAgainEndsTheFleet(t *testing.T) {
	dir := t.TempDir()
	f, err := fleet.Start(t.Context(), fleet.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	// What a service finds when its disk has gone bad.
	for _, end := range []string{"", "-wal", "-shm"} {
		path := filepath.Join(dir, "mail.db"+end)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "mail.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Kill(wire.Mail); err != nil {
		t.Fatal(err)
	}
	<-f.Context().Done()
	if err := f.Err(); err == nil || !strings.Contains(err.Error(), "mail") {
		t.Error(err)
	}
	if err := f.Stop(t.Context()); !errors.Is(err, f.Err()) {
		t.Errorf("Stop says %v", err)
	}
}

func TestServicesEndWithTheirSupervisorsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f, err := fleet.Start(ctx, fleet.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := f.Stop(t.Context()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := http.Get(f.URL(wire.Stock) + wire.HealthPath); err == nil {
		t.Error("a service is still there")
	}
}

func TestStopEndsEveryProcess(t *testing.T) {
	f, err := fleet.Start(t.Context(), fleet.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range wire.Services() {
		resp, err := http.Get(f.URL(s) + wire.HealthPath)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(err, resp)
		}
		_ = resp.Body.Close()
	}
	for range 2 { // idempotent
		if err := f.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, s := range wire.Services() {
		if _, err := http.Get(f.URL(s) + wire.HealthPath); err == nil {
			t.Errorf("%s is still there", s)
		}
		if f.Deaths(s) != 0 {
			t.Errorf("the end of %s counts as a death", s)
		}
	}
}
