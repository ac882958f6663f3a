package main

import (
	"testing"

	"github.com/engined/engined/test/verify/layer"
	"github.com/engined/engined/test/verify/ledger"
)

func TestOnlyWhatIsWrittenHereMayBeChanged(t *testing.T) {
	for status, want := range map[string]bool{
		"":                          false,
		" M docs/VERIFICATION.md\n": false,
		" M docs/VERIFICATION.md\n?? engine/a.go\n":                  true,
		"?? test/verify/runs.jsonl\n M test/planted/results.jsonl\n": false,
		" M engine/shard.go\n":                                       true,
	} {
		if got := changes(status); got != want {
			t.Errorf("%q: changed is %v", status, got)
		}
	}
}

func TestARunThatFailsIsWrittenAsFailed(t *testing.T) {
	for _, c := range []struct {
		result layer.Result
		failed int64
		found  string
	}{
		{layer.Result{Passed: true, Line: layer.Line{Layer: "sim", Runs: 3}}, 0, ""},
		{layer.Result{Line: layer.Line{Layer: "sim", Failed: 2}, Verdict: "I3: two"}, 2, "I3: two"},
		// A layer that was void, died or said nothing has failed, whatever it believes.
		{layer.Result{Line: layer.Line{Layer: "sim"}, Last: "void: never"}, 1, "void: never"},
		{layer.Result{Last: "killed"}, 1, "it printed no line of what it did: killed"},
	} {
		var r ledger.Run
		fill(&r, c.result)
		if r.Failed != c.failed || r.Found != c.found {
			t.Errorf("%+v becomes %+v", c.result, r)
		}
	}
}
