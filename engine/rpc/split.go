package rpc

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/engined/engined/proto/enginepb"
)

// split cuts a message into parts of at most max bytes each, or one item that is
// larger. Their order keeps that of the items: assign, inputs, drops, tasks,
// cancels. What is said once stands where a worker takes it at the same time as
// before: the welcome first, durable and drain last.
func split(d *pb.WorkerDown, max int) []*pb.WorkerDown {
	if proto.Size(d) <= max {
		return []*pb.WorkerDown{d}
	}
	c := cutter{max: max, part: &pb.WorkerDown{Welcome: d.Welcome}}
	for _, a := range d.Assign {
		c.assign(a)
	}
	for _, x := range d.Inputs {
		c.room(proto.Size(x))
		c.part.Inputs = append(c.part.Inputs, x)
	}
	for _, x := range d.Drops {
		c.room(proto.Size(x))
		c.part.Drops = append(c.part.Drops, x)
	}
	for _, x := range d.Tasks {
		c.room(proto.Size(x))
		c.part.Tasks = append(c.part.Tasks, x)
	}
	for _, x := range d.Cancels {
		c.room(proto.Size(x))
		c.part.Cancels = append(c.part.Cancels, x)
	}
	c.part.Durable, c.part.Drain = d.Durable, d.Drain
	return append(c.parts, c.part)
}

type cutter struct {
	max   int
	parts []*pb.WorkerDown
	part  *pb.WorkerDown
	bytes int
}

// tagBytes is what an item costs beside its own bytes: its tag and its length.
const tagBytes = 6

// room begins another part if an item of n bytes does not fit in this one.
func (c *cutter) room(n int) {
	n += tagBytes
	if c.bytes > 0 && c.bytes+n > c.max {
		c.parts = append(c.parts, c.part)
		c.part, c.bytes = &pb.WorkerDown{}, 0
	}
	c.bytes += n
}

// assign cuts a long history between its events.
func (c *cutter) assign(a *pb.Assign) {
	if n := proto.Size(a); n <= c.max {
		c.room(n)
		c.part.Assign = append(c.part.Assign, a)
		return
	}
	rest := a.History
	for {
		n, bytes := 0, 0
		for ; n < len(rest); n++ {
			size := proto.Size(rest[n]) + tagBytes
			if n > 0 && bytes+size > c.max {
				break
			}
			bytes += size
		}
		piece := &pb.Assign{
			Run: a.Run, Stamp: a.Stamp, History: rest[:n], Processed: a.Processed, Folded: a.Folded, More: n < len(rest),
		}
		c.room(bytes + proto.Size(a.Stamp) + 4*tagBytes)
		c.part.Assign = append(c.part.Assign, piece)
		if rest = rest[n:]; len(rest) == 0 {
			return
		}
	}
}
