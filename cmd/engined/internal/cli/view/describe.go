package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

// Describe writes what is known of a run: its state, what it waits for and what
// would end that, what is armed to be undone, and the attempts so far.
func Describe(w io.Writer, d *pb.DescribeResponse, now int64) error {
	p := printer{w: w}
	r := d.Info
	p.line("workflow   %s", Clean(r.WorkflowId))
	p.line("run        %s", Clean(r.RunId))
	p.line("type       %s, on queue %s", Clean(r.Type), Clean(r.Queue))
	p.line("status     %s", Status(r))
	if h := r.Hold; h.GetKind() != pb.HoldKind_HOLD_KIND_NONE {
		p.hold(h, now)
	}
	p.line("started    %s (%s)", moment(r.Started), ago(r.Started, now))
	if r.Closed > 0 {
		p.line("closed     %s (%s), after %s", moment(r.Closed), ago(r.Closed, now), span(time.Duration(r.Closed-r.Started)))
	}
	p.line("history    %s, %s", count(r.Events, "event"), size(int(d.HistoryBytes)))
	if d.CancelRequested && r.Status == pb.Status_STATUS_RUNNING {
		p.line("cancel     is asked for")
	}
	if d.Worker != "" {
		p.line("held by    %s", Clean(d.Worker))
	}
	if d.Unfolded > 0 {
		p.line("code       has %s still to answer", count(d.Unfolded, "input"))
	}
	p.waits(d.Waiting, now)
	p.ledger(d.Waiting)
	return p.err
}

// printer writes lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, strings.TrimRight(format, "\n")+"\n", args...)
	}
}

func (p *printer) hold(h *pb.Hold, now int64) {
	since := ""
	if h.Since > 0 {
		since = " since " + ago(h.Since, now)
	}
	p.line("held       %s%s", words(h.Kind), since)
	for line := range strings.SplitSeq(h.Reason, "\n") {
		p.line("           %s", Clean(line))
	}
	if len(h.Builds) > 0 {
		p.line("           builds that cannot go on: %s", Clean(strings.Join(h.Builds, ", ")))
	}
}

// waits lists what the run waits for, each with its attempts.
func (p *printer) waits(all []*pb.Waiting, now int64) {
	first := true
	for _, x := range all {
		if x.Kind == "ledger" {
			continue
		}
		if first {
			p.line("")
			p.line("waits for")
			first = false
		}
		p.line("  %s", strings.Join(notEmpty(Clean(x.Op), x.Kind, Clean(x.Type), since(x, now)), "  "))
		if x.Ends != "" {
			p.line("      ends with  %s", Clean(x.Ends))
		}
		if x.Until > 0 {
			p.line("      until      %s (%s)%s", moment(x.Until), in(x.Until, now), limit(x.Limit))
		}
		if x.Worker != "" {
			p.line("      worker     %s", Clean(x.Worker))
		}
		p.attempts(x.Attempts, "      ")
	}
}

func since(x *pb.Waiting, now int64) string {
	s := x.State
	if x.Attempt > 1 {
		s += fmt.Sprintf(", attempt %d", x.Attempt)
	}
	if x.Since > 0 {
		s += ", since " + ago(x.Since, now)
	}
	return s
}

func limit(l pb.Limit) string {
	if l == pb.Limit_LIMIT_UNSPECIFIED {
		return ""
	}
	return ", its " + words(l) + " limit"
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
func (p *printer) ledger(all []*pb.Waiting) {
	first := true
	for _, x := range all {
		if x.Kind != "ledger" {
			continue
		}
		if first {
			p.line("")
			p.line("would be undone")
			first = false
		}
		p.line("  %s  %s, which is %s", Clean(x.Op), Clean(x.Type), words(x.Outcome))
	}
}

func (p *printer) attempts(all []*pb.Attempt, indent string) {
	for _, a := range all {
		end, worker := "", ""
		if a.Ended > 0 && a.Started > 0 {
			end = " after " + span(time.Duration(a.Ended-a.Started))
		}
		if a.Worker != "" {
			worker = " on " + Clean(a.Worker)
		}
		late := ""
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
	return ": " + cut(Clean(f.Message), 300)
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
	if f.Type != "" {
		name = Clean(f.Type) + ": "
	}
	p.line("%s%s%s", indent, name, Clean(f.Message))
	// The details of the engine's own errors are in their message.
	if f.Details != nil && !strings.HasPrefix(f.Type, "engined.") {
		p.line("%s  details %s", indent, Payload(f.Details, 300))
	}
	for _, c := range f.Causes {
		p.failure(c, indent+"  ")
	}
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func moment(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05.000 UTC") }
