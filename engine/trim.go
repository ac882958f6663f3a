package engine

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "github.com/engined/engined/proto/enginepb"
)

// A description is for people: it is kept to describeBytes. Above that the texts of
// failures are cut to a line each, and then the list of what is waited for is cut.
const (
	describeBytes = 1 << 20
	shortText     = 200
)

// trim brings a description to a size that is worth sending; the history has all.
func trim(d *pb.DescribeResponse) {
	if proto.Size(d) <= describeBytes {
		return
	}
	for _, w := range d.Waiting {
		w.Failure = brief(w.Failure)
		if n := len(w.Attempts); n > 1 {
			w.Attempts = w.Attempts[n-1:]
		}
		for i, a := range w.Attempts {
			if a.Failure != nil {
				// What the run's own rows hold is not changed.
				a = proto.CloneOf(a)
				a.Failure = brief(a.Failure)
				w.Attempts[i] = a
			}
		}
	}
	const tag = 5 // and length
	bytes := proto.Size(d.Info)
	for i, w := range d.Waiting {
		if bytes += proto.Size(w) + tag; bytes > describeBytes {
			left := len(d.Waiting) - i
			d.Waiting = append(d.Waiting[:i:i], &pb.Waiting{Kind: "more", State: fmt.Sprintf("and %d more; the history has all", left)})
			return
		}
	}
}

// brief is a failure in a line.
func brief(f *pb.Failure) *pb.Failure {
	if f == nil {
		return nil
	}
	text := []rune(f.Message)
	if len(text) > shortText {
		text = append(text[:shortText-1:shortText-1], '…')
	}
	return &pb.Failure{Outcome: f.Outcome, Type: f.Type, Message: string(text), Final: f.Final, Limit: f.Limit}
}
