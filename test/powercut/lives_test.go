package powercut

import (
	"testing"
	"time"
)

func TestLivesUnderRandomFaults(t *testing.T) {
	begin := time.Now()
	var tally Tally
	each(t, *seeds, func(i int) error { return Live(t.Context(), *firstSeed+uint64(i), &tally, nil) })
	t.Logf("%v\n%v", time.Since(begin).Round(time.Second), &tally)
	if n := *seeds; n >= 100 {
		tally.atLeast(t, map[string]int{"seeds": n, "ends: cut": n, "faults: power cut": n / 2, "faults: failed sync": n / 10,
			"faults: failed write": n / 10, "faults: full disk": n / 10, "ends: kill": n / 5, "calls without an answer that stood": n / 20,
			"calls: commit done": 10 * n})
	}
}
