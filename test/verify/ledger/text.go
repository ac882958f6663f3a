package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// total is what the runs of a layer come to.
type total struct {
	times, bad        int // how often it was run, and how often it found something
	runs, void, found int64
	seconds           float64
	counts            map[string]int64
}

// addUp adds the runs up, a total for each layer.
func addUp(runs []Run) map[string]*total {
	all := map[string]*total{}
	for _, r := range runs {
		t := all[r.Layer]
		if t == nil {
			t = &total{counts: map[string]int64{}}
			all[r.Layer] = t
		}
		t.times++
		if r.Failed > 0 {
			t.bad++
		}
		t.runs, t.void, t.found, t.seconds = t.runs+r.Runs, t.void+r.Void, t.found+r.Failed, t.seconds+r.Seconds
		for what, n := range r.Counts {
			t.counts[what] += n
		}
	}
	return all
}

func runsText(runs []Run) string {
	if len(runs) == 0 {
		return "\nNothing has been recorded yet.\n\n"
	}
	totals := addUp(runs)
	names := slices.Sorted(maps.Keys(totals))
	b := &strings.Builder{}
	row(b, "", "layer", "times run", "runs", "void", "failed", "hours")
	row(b, "lrrrrr")
	for _, name := range names {
		t := totals[name]
		row(b, "", name, number(int64(t.times)), number(t.runs), number(t.void), number(t.found), fmt.Sprintf("%.1f", t.seconds/3600))
	}
	b.WriteString("\nFaults and operations, in all these runs:\n\n")
	for _, name := range names {
		fmt.Fprintf(b, "- **%s**: %s\n", name, countsText(totals[name].counts))
	}
	b.WriteString("\nThe runs, the newest first. *Changed* is a tree with changes that are in no commit;\n" +
		"*events* is the sum of the run's faults and operations.\n\n")
	row(b, "", "begun (UTC)", "commit", "tree", "layer", "seed", "runs", "events", "void", "failed", "seconds", "found")
	row(b, "lllllrrrrrl")
	newest := slices.Clone(runs)
	slices.SortStableFunc(newest, func(a, b Run) int { return strings.Compare(b.Date, a.Date) })
	for _, r := range newest {
		tree := "clean"
		if r.Dirty {
			tree = "changed"
		}
		var events int64
		for _, n := range r.Counts {
			events += n
		}
		row(b, "", r.Date, short(r.Commit), tree, r.Layer, fmt.Sprint(r.Seed), number(r.Runs), number(events),
			number(r.Void), number(r.Failed), fmt.Sprintf("%.0f", r.Seconds), cell(r.Found))
	}
	return "\n" + b.String() + "\n"
}

// countsText lists counts, the rarest last.
func countsText(counts map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = cell(name) + " " + number(counts[name])
	}
	return cmp.Or(strings.Join(names, " · "), "none")
}

func plantedText(planted []Planted) string {
	if len(planted) == 0 {
		return "\nNothing has been recorded yet.\n\n"
	}
	by, caught := map[string]int64{}, int64(0)
	for _, p := range planted {
		if p.Caught != "" {
			by[p.Caught]++
			caught++
		}
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, "\n%d of %d were caught the last time: %s.\n\n", caught, len(planted), countsText(by))
	row(b, "", "patch", "rule", "what it breaks", "caught by", "seed", "seconds", "what it was caught as", "commit")
	row(b, "lclllrll")
	for _, p := range planted {
		by := p.Caught
		if by == "" {
			by = "**not caught** (" + strings.Join(p.Layers, ", ") + ")"
		}
		row(b, "", p.Patch, cell(p.Rule), cell(p.What), by, fmt.Sprint(p.Seed), fmt.Sprintf("%.1f", p.Seconds), cell(p.Said), short(p.Commit))
	}
	return b.String() + "\n"
}

// row writes a row of a table, or, given how the columns are aligned, the line
// below its head.
func row(b *strings.Builder, align string, cells ...string) {
	for _, a := range align {
		cells = append(cells, map[rune]string{'l': "---", 'r': "---:", 'c': ":---:"}[a])
	}
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// cell makes a text fit into a table.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 160 {
		text = string(runes[:159]) + "…"
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text)
}

func short(commit string) string { return commit[:min(len(commit), 8)] }

// number writes thousands with commas.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
