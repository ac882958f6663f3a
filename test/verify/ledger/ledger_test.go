package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const empty = "# Verification\n\nby hand\n\n<!-- begin runs -->\nold\n<!-- end runs -->\n\nmore\n\n<!-- begin planted -->\n<!-- end planted -->\nend\n"

func newProject(t *testing.T, text string) string {
	t.Helper()
	root := t.TempDir()
	for _, file := range Written {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, document), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return root
}

func written(t *testing.T, root string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	first  = Run{Date: "2026-12-01 10:00", Commit: "aaaaaaaabbbb", Layer: "sim", Seed: 7, Runs: 1000, Counts: map[string]int64{"cut power": 900, "flood": 3}, Seconds: 1800}
	second = Run{Date: "2026-12-02 10:00", Commit: "ccccccccdddd", Dirty: true, Layer: "sim", Seed: 8, Runs: 234, Counts: map[string]int64{"cut power": 101}, Void: 1, Failed: 2, Seconds: 1800, Found: "seed 8: I3: two | runs"}
	other  = Run{Date: "2026-12-01 12:00", Commit: "aaaaaaaabbbb", Layer: "property", Seed: 9, Runs: 5, Seconds: 36}
)

func TestRunsAreAddedUp(t *testing.T) {
	sum := addUp([]Run{first, second, other})
	s := sum["sim"]
	if s.times != 2 || s.bad != 1 || s.runs != 1234 || s.void != 1 || s.found != 2 || s.seconds != 3600 {
		t.Errorf("sim: %+v", s)
	}
	if s.counts["cut power"] != 1001 || s.counts["flood"] != 3 {
		t.Errorf("sim: %v", s.counts)
	}
	if p := sum["property"]; p.times != 1 || p.runs != 5 || len(sum) != 2 {
		t.Errorf("property: %+v", p)
	}
}

func TestTheDocumentSaysWhatTheRunsCameTo(t *testing.T) {
	root := newProject(t, empty)
	for _, r := range []Run{first, second, other} {
		if err := Add(root, r); err != nil {
			t.Fatal(err)
		}
	}
	text := written(t, root)
	for _, want := range []string{
		"| sim | 2 | 1,234 | 1 | 2 | 1.0 |",
		"- **sim**: cut power 1,001 · flood 3\n",
		"- **property**: none\n",
		"| 2026-12-02 10:00 | cccccccc | changed | sim | 8 | 234 | 101 | 1 | 2 | 1800 | seed 8: I3: two \\| runs |",
		"| 2026-12-01 10:00 | aaaaaaaa | clean | sim | 7 | 1,000 | 903 | 0 | 0 | 1800 |  |",
		"\nby hand\n", "\nmore\n", "<!-- end planted -->\nend\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "old") {
		t.Errorf("what was between the markers is still there")
	}
	if i, j := strings.Index(text, "12-02 10:00"), strings.Index(text, "12-01 12:00"); i > j {
		t.Errorf("the newest run is not the first")
	}
	if err := Write(root); err != nil || written(t, root) != text {
		t.Errorf("written again it differs (%v)", err)
	}
}

func TestADocumentWithoutMarkersIsLeftAlone(t *testing.T) {
	for _, text := range []string{
		"nothing", strings.Replace(empty, "<!-- end runs -->\n", "", 1),
		strings.Replace(empty, "<!-- begin planted -->\n", "", 1), empty + empty,
	} {
		root := newProject(t, text)
		if err := Add(root, first); err == nil || written(t, root) != text {
			t.Errorf("the error is %v, and the document %q", err, written(t, root))
		}
	}
}

func TestABrokenRecordIsNamed(t *testing.T) {
	root := newProject(t, empty)
	if err := os.WriteFile(filepath.Join(root, runsFile), []byte("{}\n{\"runs\":\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Write(root); err == nil || !strings.Contains(err.Error(), "runs.jsonl:2") {
		t.Errorf("the error is %v", err)
	}
}

func TestTheNewestResultOfAPatchCounts(t *testing.T) {
	root := newProject(t, empty)
	stay := func(name string) bool { return name != "gone" }
	for _, results := range [][]Planted{
		{{Patch: "b", Layers: []string{"sim", "property"}}, {Patch: "a", Caught: "sim"}, {Patch: "gone"}},
		{{Patch: "b", Rule: "6", Caught: "property", Seed: 5, Said: "I1: lost"}},
	} {
		if err := AddPlanted(root, results, stay); err != nil {
			t.Fatal(err)
		}
	}
	text := written(t, root)
	for _, want := range []string{"2 of 2 were caught the last time: property 1 · sim 1.", "| b | 6 |  | property | 5 | 0.0 | I1: lost |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "gone") || strings.Contains(text, "not caught") {
		t.Errorf("the document has what is over:\n%s", text)
	}
	if err := AddPlanted(root, []Planted{{Patch: "a", Layers: []string{"sim"}}}, stay); err != nil {
		t.Fatal(err)
	}
	if text := written(t, root); !strings.Contains(text, "1 of 2 were caught") || !strings.Contains(text, "**not caught** (sim)") {
		t.Errorf("what is not caught is not told:\n%s", text)
	}
}

func TestNumbersHaveCommas(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := number(n); got != want {
			t.Errorf("%d is written %s", n, got)
		}
	}
}
