package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
)

func TestARunGoesThroughOverASocket(t *testing.T) {
	l := newLab(t, Options{})
	p := l.worker(hello("w1"))
	go func() { _ = p.serve() }()
	l.start("a", "Echo", payload(100))
	res, err := l.client.Await(t.Context(), &pb.AwaitRequest{Run: ref("a")})
	if err != nil || res.Result.Status != pb.Status_STATUS_COMPLETED || len(res.Result.Result.Data) != 100 {
		t.Fatalf("await: %v, %v", res, err)
	}
}

// A worker asks for what is too large for one message, and is asked for it.
func TestTenResultsOfTwoMiBAndTheirHistory(t *testing.T) {
	l := newLab(t, Options{})
	p := l.worker(hello("w1"))
	go func() { _ = p.serve() }()
	const size = 2<<20 - 100
	for i := range 10 {
		l.start(fmt.Sprint(i), "Echo", payload(size))
	}
	for i := range 10 {
		res, err := l.client.Await(t.Context(), &pb.AwaitRequest{Run: ref(fmt.Sprint(i))})
		if err != nil || len(res.Result.Result.GetData()) != size {
			t.Fatalf("run %d: %d bytes, %v", i, len(res.GetResult().GetResult().GetData()), err)
		}
	}
	var events, pages int
	for after := int64(0); ; pages++ {
		page, err := l.client.History(t.Context(), &pb.HistoryRequest{Run: ref("0"), After: after})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(page.Events); n == 0 || n > 1 {
			t.Errorf("page %d of events of 2 MiB holds %d", pages, n)
		}
		events += len(page.Events)
		if after = page.Next; after == 0 {
			break
		}
	}
	if events != 4 {
		t.Errorf("%d events in %d pages", events, pages+1)
	}
}

func TestAHelloThatDoesNotFitIsToldWhy(t *testing.T) {
	l := newLab(t, Options{})
	h := hello("w1")
	h.Protocol = 99
	_, err := l.worker(h).recv()
	if s := status.Convert(err); s.Code() != codes.InvalidArgument || !strings.Contains(s.Message(), "protocol 99") || !strings.Contains(s.Message(), fmt.Sprint(engine.Protocol)) {
		t.Errorf("another protocol: %v", err)
	}
	if _, err := l.worker(nil).recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no hello: %v", err)
	}
}

// until asks again until ok.
func until(t *testing.T, what string, ok func() bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it never happened: %s", what)
		}
	}
}

func (l *lab) workers() []*pb.WorkerInfo {
	res, err := l.admin.ListWorkers(l.t.Context(), &pb.ListWorkersRequest{Namespace: "default"})
	if err != nil {
		l.t.Fatal(err)
	}
	return res.Workers
}

func TestASilentWorkerIsLostAndAnIdleOneIsNot(t *testing.T) {
	l := newLab(t, Options{Tick: 10 * time.Millisecond})
	silent := l.worker(hello("silent"))
	idle := l.worker(hello("idle"))
	pings := make(chan error, 1)
	go func() { // it sends whenever it is sent something
		for {
			if _, err := idle.recv(); err != nil {
				pings <- err
				return
			}
			_ = idle.stream.Send(&pb.WorkerUp{Read: idle.read})
		}
	}()
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := silent.recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	err := rpcerr.FromStatus(t.Context(), "work", <-ended)
	if !apierr.Is(err, apierr.Unavailable) || !strings.Contains(err.Error(), "silent") {
		t.Errorf("the silent worker was told %v", err)
	}
	if ws := l.workers(); len(ws) != 1 || ws[0].Identity != "idle" {
		t.Errorf("workers: %v", ws)
	}
	if n := l.e.Stats().WorkersLost; n != 1 {
		t.Errorf("%d workers lost", n)
	}
	select {
	case err := <-pings:
		t.Errorf("the idle worker was told %v", err)
	default:
	}
}

func TestAWorkerThatSendsAndDoesNotReadIsLost(t *testing.T) {
	l := newLab(t, Options{Tick: 5 * time.Millisecond})
	p := l.worker(hello("deaf"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if err := p.stream.Send(&pb.WorkerUp{}); err != nil {
				return
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	until(t, "the worker is lost", func() bool { return l.e.Stats().WorkersLost == 1 })
	for {
		_, err := p.stream.Recv() // what was sent before
		if err == nil {
			continue
		}
		if !strings.Contains(err.Error(), "has not read") {
			t.Errorf("it was told %v", err)
		}
		break
	}
}

func TestAWorkerThatClosesItsEndHasNotDied(t *testing.T) {
	l := newLab(t, Options{})
	p := l.worker(hello("w1"))
	if _, err := p.recv(); err != nil {
		t.Fatal(err)
	}
	if err := p.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := p.recv(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("the stream ended with %v", err)
			}
			break
		}
	}
	if s := l.e.Stats(); s.WorkersLost != 0 || s.Workers != 0 {
		t.Errorf("%d lost, %d here", s.WorkersLost, s.Workers)
	}
}

func TestAStoppingServerSendsEverybodyAwayToComeBack(t *testing.T) {
	l := newLab(t, Options{})
	p := l.worker(hello("w1"))
	if _, err := p.recv(); err != nil {
		t.Fatal(err)
	}
	l.start("a", "Unknown", nil)
	awaited := make(chan error, 1)
	go func() {
		_, err := l.client.Await(t.Context(), &pb.AwaitRequest{Run: ref("a")})
		awaited <- err
	}()
	until(t, "the await is under way", func() bool {
		l.s.calls.mu.Lock()
		defer l.s.calls.mu.Unlock()
		return l.s.calls.running > 0
	})
	l.s.Stop(t.Context())
	if err := rpcerr.FromStatus(t.Context(), "await", <-awaited); !apierr.Is(err, apierr.Unavailable) {
		t.Errorf("the await was told %v", err)
	}
	for {
		if _, err := p.recv(); err != nil {
			if !apierr.Is(rpcerr.FromStatus(t.Context(), "work", err), apierr.Unavailable) {
				t.Errorf("the worker was told %v", err)
			}
			break
		}
	}
	if n := l.e.Stats().WorkersLost; n != 0 {
		t.Errorf("%d workers count as lost because the server stops", n)
	}
}

func TestErrorsArriveWithTheirHint(t *testing.T) {
	var seen []string
	l := newLab(t, Options{Version: "v1", Observe: func(m, c string, _ time.Duration) { seen = append(seen, m+" "+c) }})
	_, err := l.client.Describe(t.Context(), &pb.DescribeRequest{Run: ref("nobody")})
	e := rpcerr.FromStatus(t.Context(), "describe", err)
	if !apierr.Is(e, apierr.NotFound) || !strings.Contains(e.Error(), "nobody") {
		t.Errorf("describe: %v", e)
	}
	info, err := l.admin.GetServerInfo(t.Context(), &pb.ServerInfoRequest{})
	if err != nil || info.Version != "v1" || !info.Ready || info.Protocol != engine.Protocol {
		t.Errorf("info %v, %v", info, err)
	}
	if len(seen) != 2 || seen[0] != "Client/Describe NotFound" || seen[1] != "Admin/GetServerInfo OK" {
		t.Errorf("observed %v", seen)
	}
}

func TestReadsAreBoundedAndRefused(t *testing.T) {
	g := newGate(1, 1)
	read := &pb.ListRequest{}
	if err := g.enter(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() { waits <- g.enter(ctx, read) }()
	until(t, "one waits", func() bool { return len(g.queue) == 2 })
	if err := g.enter(t.Context(), read); !apierr.Is(err, apierr.ResourceExhausted) {
		t.Errorf("the third: %v", err)
	}
	if err := g.enter(t.Context(), &pb.StartRequest{}); err != nil {
		t.Errorf("others are not held up: %v", err)
	}
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up: %v", err)
	}
	g.leave(read)
	if len(g.queue) != 0 || len(g.slots) != 0 {
		t.Error("something is left in the gate")
	}
}
