package worker

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

// opened waits for the next stream, and returns how long that took.
func (l *lab) opened() time.Duration {
	began := time.Now()
	l.reconnects()
	return time.Since(began)
}

func TestAStreamThatLivedIsOpenedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{}, register(newShop()))
		for range 20 {
			l.give(&pb.WorkerDown{})
			pass(time.Minute)
			l.stream().snap()
			if d := l.opened(); d > 55*time.Millisecond {
				t.Errorf("it took %v", d)
			}
		}
	})
}

func TestStreamsThatDieAtOnceAreOpenedLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := newLab(t, Options{Logger: log.logger()}, register(newShop()))
		began := time.Now()
		for range 100 {
			l.stream().snap()
			if d := l.opened(); d > reconnect.Cap+5*time.Millisecond {
				t.Errorf("a try came %v after the one before", d)
			}
		}
		// Full jitter: half of the cap on average.
		if d := time.Since(began); d < 30*time.Second || d > 70*time.Second {
			t.Errorf("100 tries in %v", d)
		}
		if n := strings.Count(log.String(), errBroken.Error()); n < 5 || n > 10 {
			t.Errorf("%d of 100 tries were logged", n)
		}
	})
}

func TestAnEngineThatIsBackHasItsWorkerWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{}, register(newShop()))
		l.give(&pb.WorkerDown{})
		pass(time.Minute)
		l.eng.refuse(errors.New("connection refused"))
		l.stream().snap()
		pass(time.Hour)
		l.eng.refuse(nil)
		if d := l.opened(); d > reconnect.Cap+5*time.Millisecond {
			t.Errorf("it took %v", d)
		}
	})
}
