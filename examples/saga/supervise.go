package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/engined/engined/examples/saga/internal/report"
	"github.com/engined/engined/examples/saga/internal/wire"
	pb "github.com/engined/engined/proto/enginepb"
)

// killAt are the shares of orders ended, in percent, after which the shop is
// killed; the exact moment is drawn. One more than must be, since the last may
// find nothing under way.
var killAt = []int{8, 30, 55, 75}

// window is how many orders are under way at once.
const window = 12

// supervisor starts the shop, kills it with -9 in the middle, and starts it again
// until it says that all orders have ended.
type supervisor struct {
	config shopConfig
	show   *screen
	rand   *rand.Rand

	ended   map[string]*ended
	kills   int64
	skipped int64
	closed  *summary
}

func newSupervisor(o options, dir string, url func(wire.Service) string, show *screen) *supervisor {
	s := &supervisor{
		show: show, rand: rand.New(rand.NewPCG(o.seed, 1)), ended: map[string]*ended{},
		config: shopConfig{
			Database: filepath.Join(dir, "engined.db"), URLs: map[wire.Service]string{}, Orders: o.file.Orders, Window: window,
		},
	}
	for _, service := range wire.Services() {
		s.config.URLs[service] = url(service)
	}
	return s
}

// supervise returns when every order has ended.
func (s *supervisor) supervise(ctx context.Context) error {
	for s.closed == nil {
		if err := s.life(ctx); err != nil {
			return err
		}
	}
	return nil
}

// life is one process of the shop, from its start to its end or its kill.
func (s *supervisor) life(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	s.config.Show = s.tellOf()
	config, err := json.Marshal(s.config)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), shopEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := in.Write(config); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	killed, err := s.watch(cmd.Process, out)
	werr := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case killed:
		return nil
	case werr != nil:
		return fmt.Errorf("the shop ended by itself: %w", werr)
	}
	return nil
}

// watch reads what the shop says, and kills it when it is time.
func (s *supervisor) watch(p *os.Process, out io.Reader) (killed bool, err error) {
	var kill sync.Once
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var n news
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return killed, fmt.Errorf("the shop said %q: %w", lines.Text(), err)
		}
		s.take(n)
		if killed || !s.due() {
			continue
		}
		// Some moment soon, not the one at which it spoke.
		killed = true
		delay := time.Duration(s.rand.IntN(150)) * time.Millisecond
		timer := time.AfterFunc(delay, func() { kill.Do(func() { _ = p.Kill() }) })
		defer timer.Stop()
	}
	if killed && s.closed == nil {
		s.kills++
		s.show.line("the shop was killed with -9, with %d orders under way", s.underWay())
	}
	return killed, lines.Err()
}

// due says whether the shop has come far enough to be killed once more.
func (s *supervisor) due() bool {
	n := int(s.kills)
	return n < len(killAt) && len(s.ended)*100 >= killAt[n]*len(s.config.Orders) && len(s.ended) < len(s.config.Orders)
}

func (s *supervisor) underWay() int { return min(len(s.config.Orders)-len(s.ended), window) }

func (s *supervisor) take(n news) {
	switch {
	case n.Opened != nil:
		s.skipped += int64(n.Opened.Skipped)
		s.show.line("the shop opens: %d orders are under way, %d of their steps are done and not run again",
			n.Opened.UnderWay, n.Opened.Skipped)
	case n.Ended != nil:
		if s.ended[n.Ended.Order] == nil {
			s.ended[n.Ended.Order] = n.Ended
			s.show.order(len(s.ended), n.Ended)
		}
	case n.Closed != nil:
		s.closed = n.Closed
	}
}

// tellOf chooses the order whose history is told: one that was compensated if
// there is one already.
func (s *supervisor) tellOf() string {
	for _, o := range s.config.Orders {
		if e := s.ended[o.ID]; e != nil && e.Undo == pb.UndoState_UNDO_STATE_COMPENSATED {
			return o.ID
		}
	}
	return s.config.Orders[0].ID
}

// outcomes are the engine's, for the report.
func (s *supervisor) outcomes() []report.Outcome {
	var all []report.Outcome
	for _, o := range s.config.Orders {
		e := s.ended[o.ID]
		if e == nil {
			all = append(all, report.Outcome{Order: o.ID, Status: "running", Broken: true})
			continue
		}
		all = append(all, report.Outcome{
			Order: o.ID, Status: statusWord(e.Status), Undo: undoWord(e.Undo), Reason: e.Reason,
			Broken: e.Undo == pb.UndoState_UNDO_STATE_FAILED,
		})
	}
	return all
}
