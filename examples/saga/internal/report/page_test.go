package report_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/engined/engined/examples/saga/internal/report"
	"github.com/engined/engined/examples/saga/internal/wire"
)

func write(t *testing.T, in report.Input, colours bool) string {
	t.Helper()
	var b strings.Builder
	_ = report.Write(&b, in, colours) // judged elsewhere
	return b.String()
}

// hard is a run with everything that could break a page.
func hard() report.Input {
	in := balanced()
	in.Outcomes[3].Reason = strings.Repeat("the card was declined ", 20)
	in.Outcomes[1].Broken = true
	in.Outcomes[1].Reason = "an undo\nfailed \x1b[2J"
	in.Ledgers[payments].Rows[0].Cents = 1 << 40
	in.Ledgers[payments].Rows[0].Key = strings.Repeat("k", wire.MaxKey)
	in.Story = report.Story{Order: "ok", Lines: []string{strings.Repeat("é", 300), "2 ActivityScheduled Shop.Charge\n"}}
	return in
}

func TestAPageFitsATerminal(t *testing.T) {
	for name, in := range map[string]report.Input{"balanced": balanced(), "hard": hard()} {
		for _, l := range strings.Split(write(t, in, false), "\n") {
			if n := utf8.RuneCountInString(l); n > 100 {
				t.Errorf("%s: %d columns: %s", name, n, l)
			}
		}
	}
}

func TestNothingOfAnOrdinaryPageIsCut(t *testing.T) {
	in := balanced()
	for _, l := range in.Ledgers {
		for i := range l.Rows {
			l.Rows[i].Cents *= 100_000
		}
	}
	in.Ledgers[stock].Shelves[0].Initial = 999_999
	if page := write(t, in, false); strings.Contains(page, "…") {
		t.Error(page)
	}
}

func TestOnlyATerminalGetsColours(t *testing.T) {
	if page := write(t, hard(), false); strings.Contains(page, "\x1b") {
		t.Errorf("%q", page)
	}
	page := write(t, hard(), true)
	if !strings.Contains(page, "\x1b[1;31m") || strings.Contains(page, "\x1b[2J") {
		t.Errorf("%q", page)
	}
	f, err := os.Create(t.TempDir() + "/page")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	t.Setenv("TERM", "xterm")
	if report.IsTerminal(f) {
		t.Error("a file is no terminal")
	}
}

func TestABadRunSaysSoFirst(t *testing.T) {
	in := hard()
	in.Blows[0].N = 0
	page := write(t, in, false)
	for _, f := range report.Check(in) {
		// Wrapped, but whole.
		flat := strings.Join(strings.Fields(page), "")
		want := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
			if r == '\x1b' {
				return -1
			}
			return r
		}, f.String())), "")
		at := strings.Index(flat, want)
		if at < 0 || at > strings.Index(flat, "Services,bytheirledgers") {
			t.Errorf("%q is not at the top of\n%s", f, page)
		}
	}
	if !strings.Contains(page, "NOT BALANCED") || !strings.Contains(page, "VOID") || strings.Contains(page, "\nBALANCED") {
		t.Error(page)
	}
}

func TestAPageTellsWhatHappened(t *testing.T) {
	in := balanced()
	in.Engine = report.Engine{Retries: 71, Skipped: 12, Compensations: 5}
	in.Story = report.Story{Order: "ok", Lines: []string{"1 WorkflowStarted"}}
	page := write(t, in, false)
	for _, want := range []string{
		"BALANCED", "completed", "failed, compensated", "2.50 EUR",
		"4.50 EUR charged", "2.50 EUR shipped", "2.00 EUR refunded", "15 at first", "12 left", "3 sold",
		"it was killed", "71", "delivered after its undo", "The history of ok", "1 WorkflowStarted",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
}

type broken struct{}

var errBroken = errors.New("broken")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestAPageThatCannotBeWrittenIsAnError(t *testing.T) {
	if err := report.Write(broken{}, balanced(), false); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}
