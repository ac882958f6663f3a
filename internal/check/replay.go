package check

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
)

// Replay folds a run's history anew and holds what the code asks for against what
// was recorded, to the byte: I8. New makes the code of the run.
func Replay(r *Run, fresh func() *replay.Run) []error {
	if err := r.load(fresh()); err != nil {
		return []error{&Problem{"I8", r.name(), fmt.Sprintf("its history does not load: %v", err)}}
	}
	run := fresh()
	defer run.Close()
	asked := map[int64][]*pb.Event{}
	for _, e := range r.Events {
		if !history.IsInput(e) {
			asked[e.Cause] = append(asked[e.Cause], e)
		}
	}
	var found []error
	for _, in := range r.Events {
		if !history.IsInput(in) || in.Id > r.State.Processed || run.Closed() {
			continue
		}
		now, err := run.Fold(in)
		if err != nil {
			return append(found, &Problem{"I8", r.name(), fmt.Sprintf("event %d does not fold: %v", in.Id, err)})
		}
		if same := slices.EqualFunc(now, asked[in.Id], sameDecision); !same {
			found = append(found, &Problem{"I8", r.name(), fmt.Sprintf("for event %d the code asks for %s, and %s is recorded",
				in.Id, lines(now), lines(asked[in.Id]))})
		}
	}
	return found
}

func (r *Run) load(run *replay.Run) error {
	defer run.Close()
	_, _, err := run.Load(r.Events, r.State.Processed, r.State.Folded)
	return err
}

func sameDecision(now, recorded *pb.Event) bool {
	was := proto.CloneOf(recorded)
	was.Id, was.Time = 0, 0
	return proto.Equal(was, now)
}

func lines(events []*pb.Event) []string {
	all := []string{}
	for _, e := range events {
		all = append(all, history.Line(e))
	}
	return all
}
