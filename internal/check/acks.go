package check

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Acks remembers what an engine has said yes to, so that it can be held to its
// word: I1. The zero value is ready. It is not safe for several goroutines.
type Acks struct {
	starts  map[request]string    // run id, by request
	ends    map[request]string    // cancels and terminates that were taken: run id
	results map[string]*pb.Result // by run id
	// seen has, by run id, the sum of the first n events that were read, at n-1.
	seen map[string][]uint64
}

type request struct{ namespace, workflowID, id string }

// Count is how many answers are remembered.
func (a *Acks) Count() int { return len(a.starts) + len(a.ends) + len(a.results) + len(a.seen) }

// Started notes the answer to a start. The error says that an earlier answer to
// the same request was another.
func (a *Acks) Started(namespace, workflowID, requestID, runID string) error {
	return put(&a.starts, request{namespace, workflowID, requestID}, runID, "start")
}

// Ending notes that a cancel or a terminate of a run was taken.
func (a *Acks) Ending(namespace, workflowID, requestID, runID string) error {
	return put(&a.ends, request{namespace, workflowID, requestID}, runID, "end")
}

func put(m *map[request]string, q request, runID, what string) error {
	if *m == nil {
		*m = map[request]string{}
	}
	if was, ok := (*m)[q]; ok && was != runID {
		return &Problem{"I3", q.workflowID, fmt.Sprintf("%s request %s was answered with run %s, and then with run %s", what, q.id, was, runID)}
	}
	(*m)[q] = runID
	return nil
}

// Settled notes a result. A run has one for ever.
func (a *Acks) Settled(workflowID string, res *pb.Result) error {
	if a.results == nil {
		a.results = map[string]*pb.Result{}
	}
	if was := a.results[res.RunId]; was != nil && !(was.Status == res.Status && proto.Equal(was.Result, res.Result) && proto.Equal(was.Failure, res.Failure)) {
		return &Problem{"I1", workflowID, fmt.Sprintf("run %s ended as %v, and then as %v", res.RunId, was, res)}
	}
	a.results[res.RunId] = res
	return nil
}

// Read notes a history from its first event on. What was read once is the
// beginning of whatever is longer: I2.
func (a *Acks) Read(workflowID, runID string, events []*pb.Event) error {
	if a.seen == nil {
		a.seen = map[string][]uint64{}
	}
	was, now := a.seen[runID], sums(events)
	for i := range min(len(was), len(now)) {
		if was[i] != now[i] {
			return &Problem{"I2", workflowID, fmt.Sprintf("event %d of run %s is not what it was", i+1, runID)}
		}
	}
	if len(now) > len(was) {
		a.seen[runID] = now
	}
	return nil
}

func sums(events []*pb.Event) []uint64 {
	h := fnv.New64a()
	all := make([]uint64, len(events))
	for i, e := range events {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
		if err != nil {
			b = []byte(err.Error())
		}
		h.Write(b)
		all[i] = h.Sum64()
	}
	return all
}

// Hold holds a database to all that was said.
func (a *Acks) Hold(runs []*Run) []error {
	byID := map[string]*Run{}
	for _, r := range runs {
		byID[r.Row.RunID] = r
	}
	var found []error
	lost := func(q request, format string, args ...any) {
		found = append(found, &Problem{"I1", q.workflowID, fmt.Sprintf(format, args...)})
	}
	for _, q := range slices.SortedFunc(maps.Keys(a.starts), compareRequests) {
		if byID[a.starts[q]] == nil {
			lost(q, "the start %s of run %s was acknowledged, and the run is not there", q.id, a.starts[q])
		}
	}
	for _, q := range slices.SortedFunc(maps.Keys(a.ends), compareRequests) {
		if r := byID[a.ends[q]]; r == nil || !r.asked(q.id) {
			lost(q, "the request %s to end run %s was acknowledged, and its history has neither it nor an end", q.id, a.ends[q])
		}
	}
	for _, id := range sorted(a.results) {
		r := byID[id]
		if r == nil || pb.Status(r.Row.Status) != a.results[id].Status {
			found = append(found, &Problem{"I1", id, fmt.Sprintf("it was said to have ended as %v, and the database has %v", a.results[id].Status, r.status())})
		}
	}
	for _, id := range sorted(a.seen) {
		r, was := byID[id], a.seen[id]
		if n := len(was); r == nil || len(r.Events) < n || sums(r.Events[:n])[n-1] != was[n-1] {
			found = append(found, &Problem{"I2", id, fmt.Sprintf("%d events were read, and the history does not begin with them", n)})
		}
	}
	return found
}

func (r *Run) status() string {
	if r == nil {
		return "no such run"
	}
	return pb.Status(r.Row.Status).String()
}

// asked says whether the history tells of a request to end the run, or of an end
// that made it needless.
func (r *Run) asked(id string) bool {
	return slices.ContainsFunc(r.Events, func(e *pb.Event) bool {
		return history.Closes(e) || e.GetCancelRequested().GetRequestId() == id || e.GetWorkflowTerminated().GetRequestId() == id
	})
}

func compareRequests(a, b request) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.workflowID, b.workflowID), cmp.Compare(a.id, b.id))
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
