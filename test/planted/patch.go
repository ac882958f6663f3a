package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/engined/engined/test/verify/layer"
)

// patch is a bug that is planted.
type patch struct {
	name   string // of the file, without .patch
	file   string
	rule   string // the rule of the design that it breaks, or what other promise
	what   string
	layers []layer.Layer // that should catch it, the first first
}

// patches reads all patches of a folder, by name.
func patches(folder string) ([]patch, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no patch in %s", folder)
	}
	var all []patch
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		p, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		p.file, p.name = file, strings.TrimSuffix(filepath.Base(file), ".patch")
		all = append(all, p)
	}
	return all, nil
}

// parse reads the head of a patch: "# rule: ", "# what: " and "# layer: ", each of
// which goes on in lines that begin with "#   ".
func parse(text string) (patch, error) {
	heads, last := map[string]string{}, ""
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "#")
		if !ok {
			break
		}
		if more, ok := strings.CutPrefix(comment, "   "); ok && last != "" {
			heads[last] += " " + strings.TrimSpace(more)
			continue
		}
		name, value, ok := strings.Cut(strings.TrimSpace(comment), ":")
		if !ok {
			return patch{}, fmt.Errorf("what is %q? the head has # rule:, # what: and # layer: lines", line)
		}
		last = name
		heads[last] = strings.TrimSpace(value)
	}
	p := patch{rule: heads["rule"], what: heads["what"]}
	if p.rule == "" || p.what == "" || heads["layer"] == "" {
		return patch{}, fmt.Errorf("the head must have # rule:, # what: and # layer: lines")
	}
	if !strings.Contains(text, "\ndiff --git ") {
		return patch{}, fmt.Errorf("there is no diff below the head")
	}
	var err error
	p.layers, err = layer.Named(heads["layer"])
	return p, err
}
