package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

// maxShown bounds each list of a description: a run may wait for thousands.
const maxShown = 50

// Description is what is known of a run at a moment.
type Description struct {
	*pb.DescribeResponse
	// Result is set when the run is settled.
	Result  *pb.Result
	Workers Names
	Now     int64
}

// Describe writes the run's state, how it ended or, in a sentence, what it waits
// for; then each of these with what would end it and the attempts so far; then
// what would be undone if it failed.
func (d *Description) Describe(w io.Writer) error {
	p := printer{w: w}
	r := d.Info
	p.line("workflow   %s", Clean(r.WorkflowId))
	p.line("run        %s", Clean(r.RunId))
	p.line("type       %s, on queue %s", Clean(r.Type), Clean(r.Queue))
	p.line("status     %s", Status(r))
	if s := d.Summary(); s != "" {
		p.line("now        %s", s)
	}
	if h := r.Hold; h.GetKind() != pb.HoldKind_HOLD_KIND_NONE {
		p.hold(h, d.Now)
		if todo := ToDo(r); todo != "" {
			p.line("what to do %s", todo)
		}
	}
	p.line("started    %s (%s)", moment(r.Started), Ago(r.Started, d.Now))
	if r.Closed > 0 {
		p.line("closed     %s (%s), after %s", moment(r.Closed), Ago(r.Closed, d.Now), span(time.Duration(r.Closed-r.Started)))
	}
	p.line("history    %s, %s", count(r.Events, "event"), size(int(d.HistoryBytes)))
	if d.CancelRequested && r.Status == pb.Status_STATUS_RUNNING {
		p.line("cancel     is asked for")
	}
	if d.Worker != "" {
		p.line("held by    %s", Clean(d.Worker))
	}
	if d.Unfolded > 0 {
		last := "event"
		if d.Unfolded > 1 {
			last = count(d.Unfolded, "event")
		}
		p.line("code       has not answered the last %s yet", last)
	}
	if res := d.Result; res != nil && res.Status == pb.Status_STATUS_COMPLETED {
		p.line("result     %s", Payload(res.Result, maxText))
	} else if res.GetFailure().GetMessage() != "" {
		p.line("failed with")
		p.failure(res.Failure, "  ")
	}
	d.waits(&p)
	d.ledger(&p)
	return p.err
}

// Summary is one sentence about what the run waits for, or about what is left of
// it; empty for a run that needs nothing any more.
func (d *Description) Summary() string {
	r := d.Info
	open := d.open()
	switch {
	case r.UndoState == pb.UndoState_UNDO_STATE_FAILED:
		return "an undo has failed for good: its step is left as it is, and nothing tries it again"
	case r.Closed > 0:
		return ""
	case r.UndoState == pb.UndoState_UNDO_STATE_COMPENSATING:
		return fmt.Sprintf("%s still to be undone", count(int64(len(open)), "step"))
	case r.Hold.GetKind() != pb.HoldKind_HOLD_KIND_NONE:
		return d.heldUntil(r.Hold)
	case len(open) == 0 && d.Worker == "":
		return "waits for a worker"
	case len(open) == 0:
		return "waits for its own code, on worker " + Clean(d.Worker)
	case len(open) == 1:
		return "waits for " + d.one(open[0])
	}
	var kinds []string
	n := map[string]int64{}
	for _, x := range open {
		if n[x.Kind]++; n[x.Kind] == 1 {
			kinds = append(kinds, x.Kind)
		}
	}
	for i, k := range kinds {
		kinds[i] = strings.Replace(count(n[k], k), "activitys", "activities", 1)
	}
	return "waits for " + strings.Join(kinds, ", ") + d.troubled(open)
}

// heldUntil says what would end a hold.
func (d *Description) heldUntil(h *pb.Hold) string {
	switch r := d.Info; h.Kind {
	case pb.HoldKind_HOLD_KIND_STUCK:
		return "is stuck; it goes on when a worker connects whose build can go on with it, and is ended by cancel or terminate"
	case pb.HoldKind_HOLD_KIND_QUARANTINED:
		return "is kept from all workers; terminate ends it"
	case pb.HoldKind_HOLD_KIND_NO_WORKER:
		return fmt.Sprintf("waits for a worker on queue %s that knows %s and can go on with the run", Clean(r.Queue), Clean(r.Type))
	default:
		return "is held; it does not go on by itself"
	}
}

// one names a single thing that is waited for, with the moment that matters.
func (d *Description) one(x *pb.Waiting) string {
	s := strings.Join(notEmpty(x.Kind, Clean(x.Op), Clean(x.Type)), " ")
	when := In(x.Until, d.Now)
	switch {
	case x.Kind == "grace":
		return "its code to end after the cancel; the engine ends it " + when
	case x.Kind == "timer":
		return s + ", due " + when
	case x.Until == 0:
		return s + ": " + state(x)
	case x.State == "backoff":
		return s + ": " + state(x) + ", due " + when
	case x.Limit != pb.Limit_LIMIT_UNSPECIFIED:
		return s + ": " + state(x) + "; its " + strings.ReplaceAll(words(x.Limit), " ", "-") + " limit passes " + when
	default:
		return s + ": " + state(x) + ", until " + moment(x.Until)
	}
}

// troubled counts what has failed already.
func (d *Description) troubled(open []*pb.Waiting) string {
	n := int64(0)
	for _, x := range open {
		if trouble(x) > 0 {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of these failed before", n)
}

// open lists what the run waits for, first what has failed most often.
func (d *Description) open() []*pb.Waiting {
	var open []*pb.Waiting
	for _, x := range d.Waiting {
		if x.Kind != "ledger" {
			open = append(open, x)
		}
	}
	slices.SortStableFunc(open, func(a, b *pb.Waiting) int { return cmp.Compare(trouble(b), trouble(a)) })
	return open
}

// trouble counts the attempts that have failed.
func trouble(x *pb.Waiting) int {
	switch {
	case x.Kind == "undo" && x.State == "failed for good":
		return 1 << 30
	case x.State == "no worker":
		return 1 << 29
	case x.Failure == nil && len(x.Attempts) == 0:
		return 0
	}
	return max(int(x.Attempt), 1)
}

// printer writes lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, strings.TrimRight(fmt.Sprintf(format, args...), " \n")+"\n")
	}
}

func (p *printer) hold(h *pb.Hold, now int64) {
	since := ""
	if h.Since > 0 {
		since = ", since " + moment(h.Since) + " (" + Ago(h.Since, now) + ")"
	}
	p.line("held       %s%s", words(h.Kind), since)
	at := where(h.Failure)
	for line := range strings.SplitSeq(h.Reason, "\n") {
		p.line("           %s%s", Clean(line), at)
		at = ""
	}
	if len(h.Builds) > 0 {
		p.line("           builds that cannot go on: %s", Clean(strings.Join(h.Builds, ", ")))
	}
}

// waits lists what the run waits for, each with its attempts.
func (d *Description) waits(p *printer) {
	open := d.open()
	if len(open) == 0 {
		return
	}
	p.line("")
	p.line("waits for")
	for _, x := range open[:min(len(open), maxShown)] {
		p.line("  %s", strings.Join(notEmpty(Clean(x.Op), x.Kind, Clean(x.Type), state(x)), "  "))
		if x.Since > 0 {
			p.line("      since      %s (%s)", moment(x.Since), Ago(x.Since, d.Now))
		}
		if x.Until > 0 {
			p.line("      until      %s (%s)%s", moment(x.Until), In(x.Until, d.Now), limit(x.Limit))
		}
		if x.Ends != "" {
			p.line("      ends with  %s", Clean(x.Ends))
		}
		if x.Worker != "" {
			p.line("      worker     %s", Clean(x.Worker))
		}
		if len(x.Attempts) == 0 && x.Failure != nil {
			p.line("      last error%s", failure(x.Failure))
		}
		p.attempts(x.Attempts, "      ", d.Workers)
	}
	p.more(len(open))
}

// more says how much a list was cut by.
func (p *printer) more(n int) {
	if n > maxShown {
		p.line("  … and %s more: -o json has all", thousands(int64(n-maxShown)))
	}
}

func state(x *pb.Waiting) string {
	if x.Attempt > 1 {
		return fmt.Sprintf("%s, attempt %d", x.State, x.Attempt)
	}
	return x.State
}

func limit(l pb.Limit) string {
	if l == pb.Limit_LIMIT_UNSPECIFIED {
		return ""
	}
	return ", its " + strings.ReplaceAll(words(l), " ", "-") + " limit"
}

func notEmpty(all ...string) (out []string) {
	for _, s := range all {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// ledger lists the steps that will be undone if the run does not complete.
func (d *Description) ledger(p *printer) {
	n := 0
	for _, x := range d.Waiting {
		if x.Kind != "ledger" {
			continue
		}
		if n++; n == 1 {
			p.line("")
			p.line("would be undone")
		}
		if n > maxShown {
			continue
		}
		outcome := "which is " + words(x.Outcome)
		if x.Outcome == pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN {
			outcome = "of which it is unknown whether it was done"
		}
		p.line("  %s  %s, %s", Clean(x.Op), Clean(x.Type), outcome)
	}
	p.more(n)
}

func (p *printer) attempts(all []*pb.Attempt, indent string, workers Names) {
	for _, a := range all {
		end, worker, late := "", "", ""
		if a.Ended > 0 && a.Started > 0 {
			end = " after " + span(time.Duration(a.Ended-a.Started))
		}
		if a.Worker != "" {
			worker = " on " + workers.of(a.Worker)
		}
		if a.Late {
			late = ", late"
		}
		p.line("%sattempt %d%s: %s%s%s%s", indent, a.Attempt, worker, words(a.Outcome), late, end, failure(a.Failure))
	}
}

func failure(f *pb.Failure) string {
	if f == nil || f.Message == "" {
		return ""
	}
	return ": " + cut(Clean(f.Message), maxText) + where(f)
}

// Failure writes a failure with what it wraps, indented.
func Failure(w io.Writer, f *pb.Failure) error {
	p := printer{w: w}
	p.failure(f, "  ")
	return p.err
}

func (p *printer) failure(f *pb.Failure, indent string) {
	if f == nil {
		return
	}
	name := ""
	if registered(f.Type) {
		name = Clean(f.Type) + ": "
	}
	at := where(f)
	for i, l := range strings.Split(f.Message, "\n") {
		if i > 0 {
			name = ""
		}
		p.line("%s%s%s%s", indent, name, Clean(l), at)
		at = ""
	}
	// The details of the engine's own errors are in their message.
	if f.Details != nil && registered(f.Type) {
		p.line("%s  details %s", indent, Payload(f.Details, maxText))
	}
	for _, c := range f.Causes {
		p.failure(c, indent+"  ")
	}
}

// registered says whether a user gave an error its name: those of the engine and
// of Go's own packages tell a reader nothing.
func registered(name string) bool {
	return name != "" && !strings.HasPrefix(name, "engined.") && !strings.HasPrefix(name, "*errors.") && !strings.HasPrefix(name, "*fmt.")
}
