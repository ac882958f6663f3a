package repocheck

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// imports is what a package may import: ours, and from outside. The standard
// library is free, unless a rule bans a part of it.
type imports struct{ ours, outside []string }

const (
	protobuf = "google.golang.org/protobuf"
	grpc     = "google.golang.org/grpc"
	sqlite3  = "github.com/mattn/go-sqlite3"
	ulid     = "github.com/oklog/ulid/v2"
	sys      = "golang.org/x/sys"
	cobra    = "github.com/spf13/cobra"
	pflag    = "github.com/spf13/pflag"
	yaml     = "go.yaml.in/yaml/v4"
	prom     = "github.com/prometheus"
	rapid    = "pgregory.net/rapid"
)

// table is who may import whom, from the bottom up: a package imports only what
// stands above it here, and of that only what is listed. A package that is not
// in the table fails. Tests may import any of ours, since they prove behaviour
// on real parts.
//
//	wiring    cmd/engined                               examples/saga
//	joints            engine/embed   sdk/sdktest   internal/sim   internal/check
//	adapters  engine/rpc  store/sqlite  store/memstore     worker  sdk/client
//	shell     engine                                       sdk/workflow  sdk/saga  …
//	pure      engine/machine  engine/match  engine/store   internal/replay
//	nouns     history
//	wire      proto/enginepb  proto/enginerpc
//	leaves    internal/{apierr,clock,fn,retry,svc}
//
// The server's side (left) and the user's (right) meet in history, the wire and
// the leaves alone; the joints boot both.
var table = map[string]imports{
	"proto/enginepb":  {outside: []string{protobuf}},
	"proto/enginerpc": {ours: []string{"proto/enginepb"}, outside: []string{protobuf, grpc}},

	"internal/apierr":    {},
	"internal/clock":     {outside: []string{sys}},
	"internal/fault":     {},
	"internal/fn":        {},
	"internal/repocheck": {},
	"internal/retry":     {},
	"internal/rpcerr":    {ours: []string{"internal/apierr", "proto/enginepb"}, outside: []string{grpc}},
	"internal/dial":      {ours: []string{"internal/apierr", "internal/rpcerr"}, outside: []string{grpc}},
	"internal/svc":       {},

	"history": {ours: []string{"proto/enginepb"}, outside: []string{protobuf}},

	"engine/store":                    {},
	"engine/store/memstore":           {ours: []string{"engine/store"}},
	"engine/store/storetest":          {ours: []string{"engine/store", "engine/store/memstore"}},
	"engine/store/sqlite":             {ours: []string{"engine/store"}, outside: []string{sys}},
	"engine/store/sqlite/faultdriver": {ours: []string{"engine/store/sqlite"}},
	"engine/store/sqlite/mattn":       {ours: []string{"engine/store/sqlite"}, outside: []string{sqlite3}},

	"engine/match": {},
	"engine/machine": {
		// of engine/store only the rows; it calls nothing
		ours:    []string{"engine/store", "history", "internal/apierr", "internal/retry", "proto/enginepb"},
		outside: []string{protobuf},
	},
	"engine": {
		ours: []string{
			"engine/machine", "engine/match", "engine/store", "history", "proto/enginepb",
			"internal/apierr", "internal/clock", "internal/fault", "internal/retry", "internal/svc",
		},
		outside: []string{protobuf, ulid},
	},
	"engine/rpc": {
		ours:    []string{"engine", "history", "internal/apierr", "internal/rpcerr", "internal/svc", "proto/enginepb", "proto/enginerpc"},
		outside: []string{grpc, protobuf},
	},

	"internal/replay": {ours: []string{"history", "proto/enginepb"}, outside: []string{protobuf}},

	"sdk/codec":    {ours: []string{"history", "proto/enginepb"}, outside: []string{protobuf}},
	"sdk/failure":  {ours: []string{"history", "proto/enginepb", "sdk/codec"}, outside: []string{protobuf}},
	"sdk/activity": {ours: []string{"sdk/failure"}},
	"sdk/workflow": {ours: []string{
		"history", "internal/fn", "internal/replay", "proto/enginepb", "sdk/codec", "sdk/failure",
	}},
	"sdk/saga": {ours: []string{
		"history", "internal/fn", "internal/replay", "proto/enginepb", "sdk/codec", "sdk/failure", "sdk/workflow",
	}},
	"sdk/client": {
		ours: []string{
			"history", "internal/apierr", "internal/dial", "internal/fn", "internal/retry", "internal/rpcerr",
			"proto/enginepb", "proto/enginerpc", "sdk/codec", "sdk/failure", "sdk/workflow",
		},
		outside: []string{protobuf, grpc, ulid},
	},
	"worker": {
		ours: []string{
			"history", "internal/apierr", "internal/dial", "internal/fn", "internal/replay", "internal/retry",
			"internal/rpcerr", "internal/svc", "proto/enginepb", "proto/enginerpc", "sdk/activity", "sdk/codec", "sdk/failure", "sdk/saga", "sdk/workflow",
		},
		outside: []string{protobuf, grpc},
	},

	"engine/embed": {ours: []string{
		"engine", "engine/store", "engine/store/sqlite", "engine/store/sqlite/mattn",
		"internal/clock", "internal/svc", "sdk/client", "worker",
	}},
	"sdk/sdktest": {ours: []string{
		"engine", "engine/store", "engine/store/memstore", "history", "internal/clock", "proto/enginepb",
		"sdk/client", "sdk/workflow", "worker",
	}},
	// Not of the core, so that a fault there cannot hide itself.
	"internal/check": {ours: []string{"engine/store", "history", "internal/replay", "proto/enginepb"}, outside: []string{protobuf}},
	"internal/sim": {ours: []string{
		"engine", "engine/store", "engine/store/memstore", "history", "internal/apierr", "internal/check",
		"internal/clock", "internal/replay", "proto/enginepb",
		"sdk/codec", "sdk/saga", "sdk/workflow",
	}, outside: []string{protobuf}},

	// Tests alone: the core beside a model of it, in sequences that rapid draws.
	"internal/sim/property": {outside: []string{rapid}},

	// The two programs that run the layers, and write down what came of it.
	"test/verify":        {ours: []string{"test/verify/layer", "test/verify/ledger"}},
	"test/verify/layer":  {},
	"test/verify/ledger": {},
	"test/planted":       {ours: []string{"test/verify/layer", "test/verify/ledger"}},

	// The binary: settings and the server's parts on one side, on the other a
	// client's commands, which reach an engine as any program does.
	"cmd/engined/internal/config": {outside: []string{yaml, pflag}},
	"cmd/engined/internal/server": {
		ours: []string{
			"cmd/engined/internal/config", "engine", "engine/rpc", "engine/store", "engine/store/sqlite",
			"engine/store/sqlite/mattn", "internal/svc", "proto/enginepb",
		},
		outside: []string{grpc, prom},
	},
	"cmd/engined/internal/cli/view": {ours: []string{"history", "proto/enginepb"}, outside: []string{protobuf}},
	"cmd/engined/internal/cli": {
		ours: []string{
			"cmd/engined/internal/cli/view", "history", "internal/dial", "internal/rpcerr", "proto/enginepb", "proto/enginerpc", "sdk/client",
		},
		outside: []string{cobra, grpc, protobuf, sys},
	},
	"cmd/engined": {
		ours:    []string{"cmd/engined/internal/cli", "cmd/engined/internal/config", "cmd/engined/internal/server"},
		outside: []string{cobra},
	},
}

// examples stand for users' programs: they may import what users may, and
// packages of their own.
const examples = "examples/"

// benches measure the engine from outside, as users' programs do.
const benches = "bench/"

var forUsers = []string{
	"engine/embed", "sdk/activity", "sdk/client", "sdk/codec", "sdk/failure", "sdk/saga", "sdk/sdktest", "sdk/workflow", "worker",
	// The history of a run is read as events, and told by history.Line.
	"history", "proto/enginepb",
}

// driverUsers may import the SQLite driver: the opener of the store, and the
// example's services, which are programs of their own with a database each.
var driverUsers = []string{"engine/store/sqlite/mattn", "examples/saga/internal/ledger"}

func allowed(dir string) (imports, bool) {
	if strings.HasPrefix(dir, benches) {
		// A guest that misbehaves speaks the wire itself.
		return imports{ours: append(slices.Clone(forUsers), "bench/internal/", "internal/dial", "proto/enginerpc")}, true
	}
	if rest, ok := strings.CutPrefix(dir, examples); ok {
		root, _, _ := strings.Cut(rest, "/")
		return imports{ours: append(slices.Clone(forUsers), examples+root+"/"), outside: []string{sqlite3}}, true
	}
	a, ok := table[dir]
	return a, ok
}

func checkImports(r *tree) []finding {
	var found []finding
	unknown := map[string]bool{}
	for _, f := range r.files {
		may, ok := allowed(f.dir)
		if !ok && !unknown[f.dir] {
			unknown[f.dir] = true
			found = append(found, finding{where: f.dir, what: "the package is not in the table"})
		}
		if !ok {
			continue
		}
		for _, s := range f.ast.Imports {
			p := importPath(s)
			if !mayImport(may, f, p) {
				found = append(found, finding{where: f.dir + " imports " + p, what: "it does, in " + f.path})
			}
		}
	}
	return found
}

func mayImport(may imports, f *file, p string) bool {
	if ours, ok := strings.CutPrefix(p, module+"/"); ok {
		return f.test || slices.ContainsFunc(may.ours, func(a string) bool {
			return ours == a || strings.HasSuffix(a, "/") && strings.HasPrefix(ours, a)
		})
	}
	if first, _, _ := strings.Cut(p, "/"); !strings.Contains(first, ".") {
		return true // standard library
	}
	outside := may.outside
	if f.test {
		outside = append([]string{protobuf, grpc, ulid, sys}, outside...)
	}
	return slices.ContainsFunc(outside, func(a string) bool { return p == a || strings.HasPrefix(p, a+"/") })
}

func checkDriver(r *tree) []finding {
	var found []finding
	for _, f := range r.files {
		if imported(f, sqlite3) != "" && !slices.Contains(driverUsers, f.dir) {
			found = append(found, finding{where: f.dir, what: f.path + " imports the SQLite driver"})
		}
	}
	return found
}

// closure is all that a package of the table imports, through others too.
func closure(dir string) map[string]bool {
	all := map[string]bool{}
	var walk func(string)
	walk = func(d string) {
		for _, p := range table[d].ours {
			if !all[p] {
				all[p] = true
				walk(p)
			}
		}
	}
	walk(dir)
	return all
}

func TestTheTableNamesOnlyItself(t *testing.T) {
	for dir, may := range table {
		for _, p := range may.ours {
			if _, ok := table[p]; !ok {
				t.Errorf("%s may import %s, which is not in the table", dir, p)
			}
		}
		if closure(dir)[dir] {
			t.Errorf("%s may import itself through others", dir)
		}
	}
}

func TestServerAndUserMeetOnlyInTheJoints(t *testing.T) {
	joints := []string{"engine/embed", "sdk/sdktest", "internal/check", "internal/sim", "cmd/engined"}
	side := func(dir string) string {
		top, _, _ := strings.Cut(dir, "/")
		switch {
		case slices.Contains(joints, dir):
			return "joint"
		case strings.HasPrefix(dir, "cmd/engined/internal/cli"):
			return "user"
		case top == "engine" || top == "cmd":
			return "server"
		case top == "sdk" || top == "worker" || dir == "internal/replay" || dir == "internal/fn":
			return "user"
		}
		return ""
	}
	met := map[string]int{}
	for _, dir := range slices.Sorted(maps.Keys(table)) {
		mine := side(dir)
		met[mine]++
		if mine == "joint" {
			continue
		}
		for p := range closure(dir) {
			if other := side(p); other != "" && other != mine {
				t.Errorf("%s (%q) may import %s (%q)", dir, mine, p, other)
			}
		}
	}
	if met["server"] < 5 || met["user"] < 5 || met["joint"] != len(joints) {
		t.Errorf("the sides are not what this test believes: %v", met)
	}
}

func TestWhatUsersLinkIsBuiltWithoutC(t *testing.T) {
	for _, dir := range []string{
		"sdk/activity", "sdk/client", "sdk/codec", "sdk/failure", "sdk/saga", "sdk/sdktest", "sdk/workflow", "worker",
	} {
		for p := range closure(dir) {
			if slices.Contains(table[p].outside, sqlite3) {
				t.Errorf("%s may import %s, which needs a C compiler", dir, p)
			}
		}
	}
}
