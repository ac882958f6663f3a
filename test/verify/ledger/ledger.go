// Package ledger keeps the runs of the layers of verification, and what became of
// the planted bugs, and writes both into docs/VERIFICATION.md.
//
// The records stand in files of their own, a line of JSON each. What the document
// says of them stands between markers and is written anew every time from all
// records, so that writing it twice changes nothing.
//
// The package must not know how a layer is run.
package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files, below the project.
const (
	runsFile    = "test/verify/runs.jsonl"
	plantedFile = "test/planted/results.jsonl"
	document    = "docs/VERIFICATION.md"
)

// Written are the files that recording changes: a tree in which they alone are
// changed has the code of its commit.
var Written = []string{runsFile, plantedFile, document}

// Run is one run of a layer.
type Run struct {
	Date    string           `json:"date"` // of its beginning, UTC
	Commit  string           `json:"commit"`
	Dirty   bool             `json:"dirty"` // not all that ran is in the commit
	Layer   string           `json:"layer"`
	Seed    uint64           `json:"seed"` // the first
	Runs    int64            `json:"runs"`
	Counts  map[string]int64 `json:"counts"`
	Void    int64            `json:"void"`
	Failed  int64            `json:"failed"`
	Seconds float64          `json:"seconds"`
	Found   string           `json:"found,omitempty"` // what failed
}

// Planted is what became of a planted bug the last time.
type Planted struct {
	Patch   string   `json:"patch"`
	Rule    string   `json:"rule"`
	What    string   `json:"what"`
	Caught  string   `json:"caught"` // by this layer, or ""
	Layers  []string `json:"layers"` // that were tried
	Seed    uint64   `json:"seed"`
	Seconds float64  `json:"seconds"`
	Said    string   `json:"said"` // the first line of it
	Date    string   `json:"date"`
	Commit  string   `json:"commit"`
}

// Add appends a run of a layer, and writes the document.
func Add(root string, r Run) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(root, runsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return Write(root)
}

// AddPlanted replaces what is known of these patches, forgets those that stay is
// false for, and writes the document.
func AddPlanted(root string, results []Planted, stay func(patch string) bool) error {
	old, err := read[Planted](filepath.Join(root, plantedFile))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, p := range merge(old, results) {
		if !stay(p.Patch) {
			continue
		}
		line, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		b.Write(append(line, '\n'))
	}
	if err := os.WriteFile(filepath.Join(root, plantedFile), b.Bytes(), 0o666); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return Write(root)
}

// merge keeps the newest result of each patch, in the order of their names.
func merge(old, results []Planted) []Planted {
	newest := map[string]Planted{}
	for _, p := range slices.Concat(old, results) {
		newest[p.Patch] = p
	}
	var all []Planted
	for _, p := range newest {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Planted) int { return strings.Compare(a.Patch, b.Patch) })
	return all
}

// Write writes the document anew from the records.
func Write(root string) error {
	runs, err := read[Run](filepath.Join(root, runsFile))
	if err != nil {
		return err
	}
	planted, err := read[Planted](filepath.Join(root, plantedFile))
	if err != nil {
		return err
	}
	name := filepath.Join(root, document)
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	done, err := between(string(text), "runs", runsText(runs))
	if err != nil {
		return err
	}
	if done, err = between(done, "planted", plantedText(planted)); err != nil {
		return err
	}
	if err := os.WriteFile(name, []byte(done), 0o666); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// read reads the records of a file, one a line. A file that is not there has none.
func read[T any](name string) ([]T, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	var all []T
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("ledger: %s:%d: %w; mend or remove this line", name, n, err)
		}
		all = append(all, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("ledger: %s: %w", name, err)
	}
	return all, nil
}

// between replaces what stands between the markers of a part.
func between(text, part, new string) (string, error) {
	begin, end := "<!-- begin "+part+" -->\n", "<!-- end "+part+" -->\n"
	head, rest, ok := strings.Cut(text, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !ok || !ended || strings.Contains(tail, begin) {
		return "", fmt.Errorf("ledger: %s must have the lines %q and %q, once and in this order",
			document, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return head + begin + new + end + tail, nil
}
