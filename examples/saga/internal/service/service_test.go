package service_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/engined/engined/examples/saga/internal/chaos"
	"github.com/engined/engined/examples/saga/internal/ledger"
	"github.com/engined/engined/examples/saga/internal/service"
	"github.com/engined/engined/examples/saga/internal/wire"
)

// script is a plan by hand: the n-th try on an endpoint meets the n-th fault.
type script map[string][]chaos.Fault

func (s script) At(c chaos.Call) chaos.Fault {
	if faults := s[c.Endpoint]; c.Ordinal > 0 && c.Try <= int64(len(faults)) {
		return faults[c.Try-1]
	}
	return chaos.Fault{}
}

// rig is one service over real HTTP and a real file. reopen ends it and starts
// it again on the same file.
type rig struct {
	t      *testing.T
	url    string
	reopen func()
}

var shelves = []wire.Shelf{{SKU: "A", Initial: 5}, {SKU: "B", Initial: 1}}

func start(t *testing.T, s wire.Service, plan ledger.Plan) *rig {
	t.Helper()
	r := &rig{t: t}
	path := filepath.Join(t.TempDir(), "ledger?#.db")
	var stop func()
	open := func() {
		l, err := ledger.Open(t.Context(), path, s, shelves)
		if err != nil {
			t.Fatal(err)
		}
		srv, err := service.New(t.Context(), s, l, plan, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(srv.Handler())
		r.url = web.URL
		stop = func() {
			web.Close()
			srv.Close()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	open()
	r.reopen = func() { stop(); open() }
	t.Cleanup(func() { stop() })
	return r
}

type reply struct {
	status int
	body   string
	answer wire.Answer
	code   wire.Code
}

// post makes a call; lost says that the connection ended without an answer.
func (r *rig) post(endpoint, key string, fence int64, request any) (got reply, lost bool) {
	r.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.send(endpoint, key, strconv.FormatInt(fence, 10), body)
}

func (r *rig) send(endpoint, key, fence string, body []byte) (got reply, lost bool) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/"+endpoint, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Close = true // a kept connection would be tried again by net/http
	req.Header.Set(wire.KeyHeader, key)
	req.Header.Set(wire.FenceHeader, fence)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, true
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = resp.Body.Close()
	got = reply{status: resp.StatusCode, body: string(data)}
	var p wire.Problem
	for _, v := range []any{&got.answer, &p} {
		if err := json.Unmarshal(data, v); err != nil {
			r.t.Fatalf("%s: %v", data, err)
		}
	}
	got.code = p.Code
	return got, false
}

// want makes a call and holds what it is told: a code with its status, or by the
// code "" that all is well.
func (r *rig) want(code wire.Code, endpoint, key string, fence int64, request any) reply {
	r.t.Helper()
	status := http.StatusOK
	if code != "" {
		status = code.Status()
	}
	got, lost := r.post(endpoint, key, fence, request)
	if lost || got.status != status || got.code != code {
		r.t.Errorf("%s by %s: lost %v, %d %s, want %d %q", endpoint, key, lost, got.status, got.body, status, code)
	}
	return got
}

func (r *rig) lost(endpoint, key string, fence int64, request any) {
	r.t.Helper()
	if got, lost := r.post(endpoint, key, fence, request); !lost {
		r.t.Errorf("%s by %s was answered %d %s", endpoint, key, got.status, got.body)
	}
}

func (r *rig) page() wire.Ledger {
	r.t.Helper()
	resp, err := http.Get(r.url + wire.LedgerPath)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var page wire.Ledger
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		r.t.Fatal(err)
	}
	return page
}

func (r *rig) settle() {
	r.t.Helper()
	resp, err := http.Post(r.url+wire.SettlePath, "", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		r.t.Fatal(resp.Status)
	}
}

// kinds and faults hold the ledger's lines against what they should be.
func (r *rig) kinds(want ...string) {
	r.t.Helper()
	var got []string
	for _, row := range r.page().Rows {
		kind := row.Kind
		if row.Code != "" {
			kind += " " + string(row.Code)
		}
		got = append(got, kind)
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("the ledger has %q, want %q", got, want)
	}
}

func (r *rig) faults(want ...chaos.Kind) {
	r.t.Helper()
	var got []chaos.Kind
	for _, f := range r.page().Faults {
		got = append(got, chaos.Kind(f.Kind))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("the faults are %q, want %q", got, want)
	}
}

func (r *rig) left(sku string, want int64) {
	r.t.Helper()
	for _, s := range r.page().Shelves {
		if s.SKU == sku && s.Left != want {
			r.t.Errorf("%d %s are left, want %d", s.Left, sku, want)
		}
	}
}

var (
	charge  = wire.ChargeRequest{Order: "o1", Card: "4242424242424242", Cents: 1250}
	reserve = wire.ReserveRequest{Order: "o1", SKU: "A", Quantity: 2}
	parcel  = wire.ShipRequest{Order: "o1", Name: "n", Street: "s", City: "c", Postcode: "p", Country: "AT", Slips: []string{"x"}}
	mail    = wire.SendRequest{Order: "o1", To: "a@example.com", Subject: "s", Text: "t"}
)

func undo(key string, known wire.Outcome) wire.UndoRequest {
	return wire.UndoRequest{Order: "o1", ForwardKey: key, Outcome: known}
}

func faults(kinds ...chaos.Kind) (all []chaos.Fault) {
	for _, k := range kinds {
		// An hour: nothing is due before the test says so.
		all = append(all, chaos.Fault{Kind: k, Delay: map[bool]time.Duration{true: time.Hour}[k == chaos.Late]})
	}
	return all
}
