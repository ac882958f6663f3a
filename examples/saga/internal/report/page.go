package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/engined/engined/examples/saga/internal/chaos"
	"github.com/engined/engined/examples/saga/internal/wire"
)

// width is that of the terminal that a page must fit, in columns.
const width = 100

// Colours, as terminals know them.
const (
	plain = ""
	bold  = "\x1b[1m"
	red   = "\x1b[1;31m"
	green = "\x1b[1;32m"
	dim   = "\x1b[2m"
	reset = "\x1b[0m"
)

// sheet is a page under way.
type sheet struct {
	b       strings.Builder
	colours bool
}

// line writes one line, cut to the width.
func (s *sheet) line(colour, format string, args ...any) {
	text := cut(clean(fmt.Sprintf(format, args...)), width)
	if s.colours && colour != plain && text != "" {
		text = colour + text + reset
	}
	s.b.WriteString(text + "\n")
}

func (s *sheet) title(text string) {
	s.line(plain, "")
	s.line(bold, "%s", text)
}

// page is the page of a run, the bad news first.
func page(in Input, verdict error, colours bool) string {
	s := &sheet{colours: colours}
	s.line(bold, "The saga example, seed %d: %d orders in %s", in.Seed, len(in.File.Orders), in.Took.Round(100*time.Millisecond))
	s.verdict(verdict)
	s.outcomes(in)
	s.blows(in.Blows)
	s.engine(in.Engine)
	s.balance(in)
	s.services(in.Ledgers)
	s.faults(in.Ledgers)
	s.story(in.Story)
	return s.b.String()
}

func (s *sheet) verdict(verdict error) {
	if verdict == nil {
		s.line(green, "BALANCED: every effect once, everything else undone, every wanted fault met.")
		return
	}
	if e, ok := errors.AsType[*ImbalanceError](verdict); ok {
		s.line(red, "NOT BALANCED: %d findings", len(e.Findings))
		for _, f := range e.Findings {
			// In full, over as many lines as it takes: this is what has to be read.
			for i, part := range wrap(clean(f.String()), width-4) {
				s.line(red, "%s%s", []string{"  - ", "    "}[min(i, 1)], part)
			}
		}
	}
	if e, ok := errors.AsType[*VoidError](verdict); ok {
		for i, part := range wrap(clean("VOID: "+e.Error()), width-2) {
			s.line(red, "%s%s", []string{"", "  "}[min(i, 1)], part)
		}
	}
}

func (s *sheet) outcomes(in Input) {
	s.title("Orders")
	type group struct {
		name  string
		n     int
		cents int64
		bad   bool
	}
	totals := map[string]int64{}
	for _, o := range in.File.Orders {
		totals[o.ID] = o.Total()
	}
	var groups []*group
	for _, o := range in.Outcomes {
		name := describe(o)
		i := slices.IndexFunc(groups, func(g *group) bool { return g.name == name })
		if i < 0 {
			i, groups = len(groups), append(groups, &group{name: name, bad: o.Broken})
		}
		groups[i].n++
		groups[i].cents += totals[o.Order]
	}
	// Broken ones first, then the many before the few.
	slices.SortStableFunc(groups, func(a, b *group) int {
		if a.bad != b.bad {
			return map[bool]int{true: -1, false: 1}[a.bad]
		}
		return b.n - a.n
	})
	for _, g := range groups {
		colour := plain
		if g.bad {
			colour = red
		}
		s.line(colour, "  %s %5d %18s", pad(cut(clean(g.name), 64), 64), g.n, euros(g.cents))
	}
}

func (s *sheet) blows(blows []Blow) {
	s.title("Blows")
	for _, b := range blows {
		colour := plain
		if b.N < b.Least {
			colour = red
		}
		s.line(colour, "  %s %5d", pad(b.What, 64), b.N)
	}
}

func (s *sheet) engine(e Engine) {
	s.title("Engine")
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"attempts after a step's first", e.Retries},
		{"steps that replay took from the history", e.Skipped},
		{"undos run", e.Compensations},
	} {
		s.line(plain, "  %s %5d", pad(c.name, 64), c.n)
	}
}

func (s *sheet) balance(in Input) {
	g := total(in)
	s.title("Balance")
	for _, b := range []struct{ what, all, all2, first, first2, rest, rest2 string }{
		{"money", euros(g.charged), "charged", euros(g.shipped), "shipped", euros(g.refunded), "refunded"},
		{"goods", grouped(g.initial), "at first", grouped(g.left), "left", grouped(g.sold), "sold"},
		{"parcels", grouped(g.parcelsSent), "sent", grouped(g.parcelsSent - g.parcelsBack), "under way", grouped(g.parcelsBack), "called back"},
	} {
		s.line(plain, "  %-8s%16s %-8s = %16s %-9s + %16s %s", b.what, b.all, b.all2, b.first, b.first2, b.rest, b.rest2)
	}
	s.line(plain, "  %-8s%16s sent", "mails", grouped(g.mailsOut))
}

// columns of the table of services: what a row is counted as.
var columns = []struct {
	name string
	of   func(wire.Service, wire.Row) bool
}{
	{"done", func(s wire.Service, r wire.Row) bool { return r.Kind == s.Forward() }},
	{"undone", func(s wire.Service, r wire.Row) bool { return s.Undo() != "" && r.Kind == s.Undo() }},
	{"sealed", func(_ wire.Service, r wire.Row) bool { return r.Kind == wire.RowSeal }},
	{"repeats", func(_ wire.Service, r wire.Row) bool { return r.Kind == wire.RowRepeat }},
	{"refused", func(_ wire.Service, r wire.Row) bool { return r.Code.Status() == 403 && r.Kind == wire.RowRefused }},
	{"late", func(_ wire.Service, r wire.Row) bool { return r.Code == wire.IsSealed }},
	{"fenced", func(_ wire.Service, r wire.Row) bool { return r.Code == wire.OldFence }},
	{"misused", func(_ wire.Service, r wire.Row) bool { return r.Code == wire.OtherEndpoint || r.Code == wire.OtherBody }},
}

func (s *sheet) services(ledgers []wire.Ledger) {
	s.title("Services, by their ledgers")
	head := pad("", 10)
	for _, c := range columns {
		head += fmt.Sprintf("%9s", c.name)
	}
	s.line(dim, "  %s%9s", head, "deaths")
	for _, l := range ledgers {
		row := pad(string(l.Service), 10)
		for _, c := range columns {
			n := 0
			for _, r := range l.Rows {
				if c.of(l.Service, r) {
					n++
				}
			}
			row += fmt.Sprintf("%9d", n)
		}
		s.line(plain, "  %s%9d", row, max(0, l.Starts-1))
	}
}

func (s *sheet) faults(ledgers []wire.Ledger) {
	s.title("Faults that happened")
	head := pad("", 32)
	for _, l := range ledgers {
		head += fmt.Sprintf("%10s", l.Service)
	}
	s.line(dim, "  %s%10s", head, "all")
	for _, k := range chaos.Wanted() {
		row, sum := pad(string(k), 32), 0
		for _, l := range ledgers {
			n := happened([]wire.Ledger{l})[k]
			sum += n
			row += fmt.Sprintf("%10d", n)
		}
		colour := plain
		if sum == 0 {
			colour = red
		}
		s.line(colour, "  %s%10d", row, sum)
	}
}

func (s *sheet) story(st Story) {
	if len(st.Lines) == 0 {
		return
	}
	s.title("The history of " + st.Order)
	for _, l := range st.Lines {
		s.line(plain, "  %s", strings.TrimRight(l, "\n"))
	}
}

// clean takes out what a terminal would obey.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// cut shortens s to n columns, and shows that it did.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// pad fills s with blanks to n columns. (%-*s counts runes, too, but says so
// nowhere near.)
func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-len([]rune(s))))
}

// wrap breaks s at blanks into lines of at most n columns, and inside of a word
// where there is no blank.
func wrap(s string, n int) []string {
	var lines []string
	rest := []rune(s)
	for len(rest) > n {
		at := n
		for i := n; i > n/2; i-- {
			if rest[i] == ' ' {
				at = i
				break
			}
		}
		lines = append(lines, string(rest[:at]))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
	return append(lines, string(rest))
}
