package machine

import "github.com/engined/engined/engine/store"

// Followed answers a Follow.
type Followed struct {
	Run   store.RunNo
	RunID string
	// Last is the id of the newest event.
	Last int64
	// Open: the run can still grow. One that is decided can, while it is
	// compensated.
	Open bool
}

// follower waits for an event behind `after`.
type follower struct {
	to    Caller
	after int64
}

func (s *Shard) follow(in *Follow) {
	if r := s.find(in.Ref); r != nil {
		s.followLoaded(in, r)
		return
	}
	s.load(refKey(in.Ref, ""), in)
}

func (s *Shard) followLoaded(in *Follow, r *Run) {
	switch {
	case r == nil:
		s.fail(in.To, notFound("follow", in.Ref))
	case in.To == nil: // it has gone
	case r.beyond(in.After):
		s.reply(r, in.To, r.followed())
	default:
		r.followers = append(r.followers, follower{in.To, in.After})
	}
}

// beyond says that a follower who has read up to the event `after` has something
// to hear.
func (r *Run) beyond(after int64) bool { return r.Row.NextEvent-1 > after || !r.Row.Open }

func (r *Run) followed() *Followed {
	return &Followed{Run: r.Row.Run, RunID: r.Row.RunID, Last: r.Row.NextEvent - 1, Open: r.Row.Open}
}

// tellFollowers answers, at the end of a step, those who follow a run that it
// changed: once for all that the step recorded, and when that is durable.
func (s *Shard) tellFollowers() {
	for _, c := range s.out.Changes {
		r := c.Run
		rest := r.followers[:0]
		for _, f := range r.followers {
			if r.beyond(f.after) {
				c.After = append(c.After, Reply{To: f.to, Value: r.followed()})
			} else {
				rest = append(rest, f)
			}
		}
		clear(r.followers[len(rest):])
		r.followers = rest
	}
}
