package powercut

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

var (
	seeds     = flag.Int("seeds", 300, "how many seeds to live through")
	firstSeed = flag.Uint64("seed", 1, "the first of them")
	scripts   = flag.Int("scripts", 1, "how many scripts to cut at every operation")
	thorough  = flag.Bool("thorough", false, "leave nothing to chance in the scripts: hours")
)

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400) // disks are copied all the time
	os.Exit(m.Run())
}
