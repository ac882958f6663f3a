// Package property holds the core of the engine (engine/machine) against a small
// model of it, over sequences of inputs that nobody has thought of.
//
// The model (model_test.go, steps_test.go, undo_test.go) is written from what the
// documents promise, and says for each input what may come of it: the events with
// their tallies, the tasks and cancels, the answers, the acknowledgements, the rows.
// It has no worker to choose, no stamp to give and no jitter to draw: for those it
// looks at what the core chose, and says whether it might.
//
// A world (world_test.go, desk_test.go) drives a shard as the shell does, with a
// desk and a database of its own: reads that are slow, stale or fail, commits that
// are refused, or end unknown, wake-ups that come late, workers that go and come
// back. What the sequences are made of is drawn by rapid (draw_test.go), which
// shrinks one that goes wrong to the fewest inputs; it is told as a story.
//
//	go test ./internal/sim/property                                     # 20,000 sequences
//	go test ./internal/sim/property -v -budget 40m -seed 0 -timeout 0  # until the budget is spent; -v shows the counts
//
// A failure names the seed that tells its story again (-rapid.seed). In a quarter of
// the sequences all faults end at last, and every run must.
//
// Not here: suspects and the quarantine of runs that kill their workers, and which
// worker is chosen (both have stories and a chaos driver in engine/machine and
// engine/match), and the limits of sizes.
package property
