package powercut

import (
	"flag"
	"testing"
	"time"
)

var (
	seeds     = flag.Int("seeds", 300, "how many seeds to live through")
	firstSeed = flag.Uint64("seed", 1, "the first of them")
)

func TestLivesUnderRandomCuts(t *testing.T) {
	begin := time.Now()
	var tally Tally
	each(t, *seeds, func(i int) error { return Live(t.Context(), *firstSeed+uint64(i), &tally, nil) })
	t.Logf("%v\n%v", time.Since(begin), &tally)
}
