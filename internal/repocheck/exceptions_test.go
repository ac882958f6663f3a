package repocheck

// exception lets one place break one rule. size is what a measuring rule may
// find there, and 0 for the others.
type exception struct {
	rule, where string
	size        int
	reason      string
}

// exceptions may only shrink.
var exceptions = []exception{
	{"interface-size", "engine/store/store.go:Store", 8,
		"seven that move rows, and Info, which only tells how the database was made"},

	// Ranges whose result does not depend on the order.
	{"map-order", "engine/machine/loaded.go:loads.trim", 0, "the smallest ticket of all reads under way"},
	{"map-order", "engine/machine/loaded.go:Run.Idle", 0, "whether any entry must stay in memory"},
	{"map-order", "engine/match/match.go:Matcher.Disconnect", 0, "every element of the worker is deleted"},
	{"map-order", "engine/match/match.go:Matcher.Reset", 0, "every element that is named leaves; offers are made afterwards, in the order of the workers"},

	{"map-order", "engine/match/queues.go:Matcher.Queues", 0, "sums"},
	{"map-order", "engine/match/queues.go:Matcher.Load", 0, "sums"},
	{"map-order", "engine/match/queues.go:queueTable.list", 0, "what is gathered is sorted afterwards"},

	{"sleep-in-test", "engine/raw_test.go:start", 0, "inside a synctest bubble, where time is virtual"},
	{"sleep-in-test", "sdk/sdktest/sdktest.go:Env.Pass", 0, "it exists to let a bubble's virtual time pass"},

	{"context-background", "engine/engine.go:Engine.start", 0,
		"the engine's goroutines end by Close, in its order, not with a context of whoever opened it"},
	{"context-background", "engine/rpc/server.go:Server.Serve", 0, "the watch ends by Stop, after the streams that it watches"},
	{"context-background", "engine/rpc/calls.go:calls.init", 0, "calls that wait end by Stop, in its order"},
	{"context-background", "engine/store/sqlite/sqlite.go:Store.close", 0,
		"a close has no caller's context, and half a checkpoint helps nobody"},
	{"context-background", "engine/store/sqlite/faultdriver/conn.go:conn.Prepare", 0,
		"driver.Conn.Prepare has no context to pass on"},
}
