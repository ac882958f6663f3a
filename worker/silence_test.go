package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/activity"
)

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// streams is how many were opened.
func (l *lab) streams() int {
	l.eng.mu.Lock()
	defer l.eng.mu.Unlock()
	return len(l.eng.streams)
}

// talks makes the engine's end ping each second until stop is called.
func (l *lab) talks() (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	go func() {
		for seq := int64(1000); ctx.Err() == nil; seq++ {
			l.stream().down <- &pb.WorkerDown{Seq: seq}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}()
	synctest.Wait()
	return cancel
}

func TestEveryMessageUpTellsWhatWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{}, register(newShop()))
		l.give(&pb.WorkerDown{Seq: 1})
		l.give(&pb.WorkerDown{Seq: 2, Tasks: []*pb.Task{taskOf("#1", "shop.Echo")}})
		<-l.stream().up // the hello
		if up := <-l.stream().up; up.Read != 2 || up.Seq != 2 || len(up.Done) != 1 {
			t.Errorf("message %v, want what was read in it", up)
		}
	})
}

func TestAPingIsSentWhenNothingWasForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLabOn(t, &engineEnd{pings: true}, Options{}, register(newShop()))
		defer l.talks()()
		l.got()
		p := l.stream()
		pass(1100 * time.Millisecond)
		if n := len(p.up); n != 1 {
			t.Fatalf("%d messages after a second of nothing", n)
		}
		if up := <-p.up; up.Seq != 0 || up.Read < 1000 || len(up.Done)+len(up.Decided) != 0 {
			t.Errorf("the ping was %v", up)
		}
		pass(800 * time.Millisecond)
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#1", "shop.Echo")}})
		<-p.up
		pass(900 * time.Millisecond)
		if n := len(p.up); n != 0 {
			t.Errorf("%d pings although something was sent less than a second ago", n)
		}
		pass(200 * time.Millisecond)
		if n := len(p.up); n != 1 {
			t.Errorf("%d pings when nothing was sent for a second again", n)
		}
	})
}

func TestAStreamThatIsSilentIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := newLabOn(t, &engineEnd{pings: true}, Options{Logger: log.logger()}, register(newShop()))
		stop := l.talks()
		pass(time.Minute + 300*time.Millisecond) // the last word is 300 ms old
		if n := l.streams(); n != 1 {
			t.Fatalf("%d streams while the engine talked", n)
		}
		stop()
		pass(2600 * time.Millisecond)
		if n := l.streams(); n != 1 {
			t.Errorf("%d streams after less than three seconds of silence", n)
		}
		pass(800 * time.Millisecond)
		if n := l.streams(); n != 2 {
			t.Errorf("%d streams after three seconds of silence", n)
		}
		if !strings.Contains(log.String(), errSilent.Error()) {
			t.Errorf("the log does not say why:\n%s", log.String())
		}
		// Each stream has its own three seconds.
		pass(2 * time.Second)
		if n := l.streams(); n != 2 {
			t.Errorf("%d streams, the second less than three seconds old", n)
		}
	})
}

func TestStreamsWithinOneProcessAreNeitherPingedNorGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		l := newLab(t, Options{}, register(s))
		l.got()
		once := taskOf("#1", "shop.Wait")
		once.Once = true
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{once}})
		pass(50 * time.Second) // the task's deadline is a minute
		if n, pings, causes := l.streams(), len(l.stream().up), s.interruptions(); n != 1 || pings != 0 || len(causes) != 0 {
			t.Errorf("%d streams, %d pings, cancelled by %v", n, pings, causes)
		}
		close(s.gate)
	})
}

func TestInSilenceWhatRunsAtMostOnceIsInterrupted(t *testing.T) {
	for name, break_ := range map[string]func(l *lab){
		"the stream lives": func(*lab) {},
		"it broke, and no other can be had": func(l *lab) {
			l.eng.refuse(errors.New("connection refused"))
			l.stream().snap()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop()
				l := newLabOn(t, &engineEnd{pings: true}, Options{}, register(s))
				stop := l.talks()
				once, other := taskOf("#1", "shop.Wait"), taskOf("#2", "shop.Wait")
				once.Once = true
				l.give(&pb.WorkerDown{Tasks: []*pb.Task{once, other}})
				pass(30*time.Second + 300*time.Millisecond) // the last word is 300 ms old
				stop()
				break_(l)
				pass(2600 * time.Millisecond)
				if causes := s.interruptions(); len(causes) != 0 {
					t.Fatalf("interrupted early by %v", causes)
				}
				pass(time.Second)
				var interrupted *activity.InterruptedError
				if causes := s.interruptions(); len(causes) != 1 || !errors.As(causes[0], &interrupted) {
					t.Fatalf("interrupted: %v, want the one that must not run twice", causes)
				}
				l.eng.refuse(nil)
				l.reconnects()
				done := l.got().Done
				if len(done) != 1 || done[0].Delivery.Op != "#1" || done[0].Outcome != pb.Outcome_OUTCOME_INTERRUPTED || done[0].Unbegun {
					t.Errorf("the next stream carried %v", done)
				}
				close(s.gate)
			})
		})
	}
}
