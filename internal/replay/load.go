package replay

import (
	"fmt"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Load folds a whole history into a new run. The inputs up to position
// processed, folded in number, are replayed, and what the code asks for is
// compared with the decisions recorded; a difference is a *Mismatch. The inputs
// behind it are folded live. Load returns the decisions of the live ones, each
// with its cause, and the last input folded.
func (r *Run) Load(events []*pb.Event, processed, folded int64) (decisions []*pb.Event, through int64, err error) {
	if err := r.begin(); err != nil {
		return nil, 0, err
	}
	defer r.end()
	decisions, err = r.load(events, processed, folded)
	if err != nil {
		r.fail(err)
		return nil, r.last, err
	}
	return decisions, r.last, nil
}

func (r *Run) load(events []*pb.Event, processed, folded int64) ([]*pb.Event, error) {
	inputs, recorded, err := split(events, processed)
	if err != nil {
		return nil, err
	}
	var live []*pb.Event
	replayed := int64(0)
	for _, in := range inputs {
		if r.closed {
			break // what the engine records of a closed run is for no code
		}
		if in.Id > processed {
			r.logs.resume(in.Id, r.timeOf(in))
		}
		asked, err := r.fold(in)
		if err != nil {
			return nil, err
		}
		if in.Id > processed {
			live = append(live, asked...)
			continue
		}
		replayed++
		if m := r.compare(in, recorded[in.Id], asked); m != nil {
			return nil, m
		}
	}
	if !r.closed && replayed != folded {
		return nil, &BadHistory{Why: fmt.Sprintf("it has %d inputs up to event %d, and the engine counted %d", replayed, processed, folded)}
	}
	return live, nil
}

// split sorts a history into inputs and the decisions of each.
func split(events []*pb.Event, processed int64) (inputs []*pb.Event, recorded map[int64][]*pb.Event, err error) {
	recorded = map[int64][]*pb.Event{}
	seen := int64(0)
	for _, e := range events {
		if e.Id <= seen {
			return nil, nil, &BadHistory{Why: fmt.Sprintf("event %d stands behind event %d", e.Id, seen)}
		}
		seen = e.Id
		if history.IsInput(e) {
			inputs = append(inputs, e)
			continue
		}
		if e.Cause > processed || e.Cause >= e.Id {
			return nil, nil, &BadHistory{Why: fmt.Sprintf("%s was caused by event %d, and %d is the last processed", describe(e), e.Cause, processed)}
		}
		recorded[e.Cause] = append(recorded[e.Cause], e)
	}
	return inputs, recorded, nil
}
