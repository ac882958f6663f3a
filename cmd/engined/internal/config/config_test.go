package config

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"
)

// given are the sources of a test.
type given struct {
	file string
	env  []string
	args []string
}

func load(t *testing.T, g given) (*Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("engined", pflag.ContinueOnError)
	Flags(fs)
	FileFlag(fs)
	if g.file != "" {
		path := filepath.Join(t.TempDir(), "engined.yaml")
		if err := os.WriteFile(path, []byte(g.file), 0o600); err != nil {
			t.Fatal(err)
		}
		g.args = append(g.args, "--config", path)
	}
	if err := fs.Parse(g.args); err != nil {
		t.Fatal(err)
	}
	return Load(t.Context(), Sources{Flags: fs, Environ: g.env, Lookup: lookup})
}

func lookup(_ context.Context, host string) ([]netip.Addr, error) {
	known := map[string][]netip.Addr{
		"localhost": {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")},
		"here":      {netip.MustParseAddr("127.0.1.1"), netip.MustParseAddr("192.0.2.7")},
	}
	if ips := known[host]; ips != nil {
		return ips, nil
	}
	return nil, errors.New("no such host")
}

func TestTheDefaultsAreWhatTheTableSays(t *testing.T) {
	c, err := load(t, given{})
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{
		Database: "engined.db", GRPCAddress: "127.0.0.1:7450", HTTPAddress: "127.0.0.1:7451",
		DrainBudget: 10 * time.Second, ReclaimGrace: time.Second, RestartGrace: 5 * time.Second,
		LogLevel: slog.LevelInfo, LogFormat: "text", ResidentRuns: 20_000, MailboxLimit: 10_000,
	}
	if c.Settings != want {
		t.Errorf("have %+v\nwant %+v", c.Settings, want)
	}
	for _, o := range options {
		if from := c.From(o.Name).String(); from != "default" {
			t.Errorf("%s comes from %s", o.Name, from)
		}
	}
}

func TestAFlagWinsOverTheEnvironmentThatOverTheFile(t *testing.T) {
	g := given{
		file: "# a comment\nshards: 4\ndrain-budget: 1s\nlog-level: debug\ninsecure: true\nhttp-address: \"\"\n",
		env:  []string{"ENGINED_DRAIN_BUDGET=2s", "ENGINED_LOG_LEVEL=warn", "PATH=/bin", "ENGINED_INSECURE=false"},
		args: []string{"--log-level=error", "--database", "x.db"},
	}
	c, err := load(t, g)
	if err != nil {
		t.Fatal(err)
	}
	if c.Shards != 4 || c.DrainBudget != 2*time.Second || c.LogLevel != slog.LevelError || c.Database != "x.db" || c.Insecure || c.HTTPAddress != "" {
		t.Errorf("have %+v", c.Settings)
	}
	for option, want := range map[string]string{
		"shards": "line 2", "drain-budget": "env ENGINED_DRAIN_BUDGET", "log-level": "flag --log-level",
		"database": "flag --database", "insecure": "env ENGINED_INSECURE", "grpc-address": "default",
	} {
		if from := c.From(option).String(); !strings.HasSuffix(from, want) {
			t.Errorf("%s comes from %q, want %q", option, from, want)
		}
	}
}

func TestAFlagWithoutAValueIsTrueOnlyForABool(t *testing.T) {
	c, err := load(t, given{args: []string{"--insecure", "--grpc-address", "0.0.0.0:0"}})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Insecure || c.GRPCAddress != "0.0.0.0:0" {
		t.Errorf("have %+v", c.Settings)
	}
}

func TestEveryOptionTakesItsDefaultFromEverySource(t *testing.T) {
	for _, o := range options {
		var file bytes.Buffer
		m := yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
			{Kind: yaml.ScalarNode, Value: o.Name}, {Kind: yaml.ScalarNode, Tag: o.tag, Value: o.Default},
		}}
		out, err := yaml.Dump(&m)
		if err != nil {
			t.Fatal(err)
		}
		file.Write(out)
		for want, g := range map[string]given{
			"line 1":                  {file: file.String()},
			"env " + Variable(o.Name): {env: []string{Variable(o.Name) + "=" + o.Default}},
			"flag":                    {args: []string{"--" + o.Name + "=" + o.Default}},
		} {
			c, err := load(t, g)
			if err != nil {
				t.Errorf("%s: %v", o.Name, err)
			} else if from := c.From(o.Name).String(); !strings.Contains(from, want) {
				t.Errorf("%s comes from %s, want %s", o.Name, from, want)
			}
		}
		if o.Default == "" || o.Allowed == "" || o.Doc == "" || o.Type == "" {
			t.Errorf("%s is not described in full", o.Name)
		}
	}
}

// What is wrong is told with the option, where it comes from, and what is
// allowed.
func TestWhatIsWrongIsToldWithItsPlaceAndWhatIsAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		given given
		want  string
	}{
		"unknown key": {given{file: "shards: 4\ngrpc_adress: x\n"},
			"grpc_adress (file FILE, line 2): there is no such option; is grpc-address meant?"},
		"far from any": {given{file: "colour: red\n"}, "colour (file FILE, line 1): there is no such option"},
		"text for a number": {given{file: "\nshards: many\n"},
			`shards (file FILE, line 2): the text "many" is not a whole number from 0 to 32768`},
		"number for a text":  {given{file: "drain-budget: 10\n"}, "line 1): the number 10 is not a time with its unit, such as 500ms, 10s or 2m, from 0s to 1h"},
		"text for a bool":    {given{file: "insecure: yes\n"}, `the text "yes" is not true or false`},
		"no value":           {given{file: "database:\n"}, "no value is not the path of a file"},
		"a list":             {given{file: "database: [a]\n"}, "a list is not the path of a file"},
		"a group":            {given{file: "grpc:\n  address: x\n"}, "grpc (file FILE, line 1): there is no such option"},
		"twice":              {given{file: "shards: 4\nshards: 5\n"}, "shards (file FILE, line 2): it stands in line 1 already"},
		"two documents":      {given{file: "shards: 4\n---\nshards: 5\n"}, "file FILE, line 2: it cannot be read as YAML: a second document begins, the file must have one"},
		"no mapping":         {given{file: "- shards\n"}, "file FILE, line 1: the file must hold lines of the form option: value"},
		"no YAML":            {given{file: "a: 1\n  b: 2\n"}, "file FILE, line 2: it cannot be read as YAML: mapping values are not allowed"},
		"out of range":       {given{env: []string{"ENGINED_SHARDS=-1"}}, `shards (env ENGINED_SHARDS): "-1" is not a whole number from 0 to 32768`},
		"port out of range":  {given{args: []string{"--grpc-address=localhost:70000"}}, `grpc-address (flag --grpc-address): "localhost:70000" is not an address host:port with a port from 0 to 65535`},
		"no port":            {given{args: []string{"--grpc-address=localhost"}}, `"localhost" is not an address`},
		"empty address":      {given{args: []string{"--grpc-address="}}, `"" is not an address`},
		"empty path":         {given{env: []string{"ENGINED_DATABASE="}}, `database (env ENGINED_DATABASE): "" is not the path of a file`},
		"a word":             {given{args: []string{"--log-level=loud"}}, `"loud" is not debug, info, warn or error`},
		"a grace of nothing": {given{args: []string{"--reclaim-grace=0s"}}, `"0s" is not a time with its unit`},
		"overridden":         {given{env: []string{"ENGINED_SHARDS=x"}, args: []string{"--shards=4"}}, `shards (env ENGINED_SHARDS): "x" is not`},
		"no file":            {given{args: []string{"--config=/no/such/file"}}, "config (flag --config): the file cannot be read: open /no/such/file"},
		"no file in the env": {given{env: []string{"ENGINED_CONFIG=/no/such/file"}}, "config (env ENGINED_CONFIG): the file cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.given)
			var e *Error
			if !errors.As(err, &e) || len(e.Problems) != 1 {
				t.Fatalf("have %v, want one problem", err)
			}
			want := c.want
			if before, after, ok := strings.Cut(want, "FILE"); ok {
				if i := strings.Index(err.Error(), "engined.yaml"); i < 0 || !strings.Contains(err.Error(), before) {
					t.Errorf("have %q, want %q in it", err, before)
				}
				want = after
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("have %q, want %q in it", err, want)
			}
		})
	}
}

func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	_, err := load(t, given{
		file: "shards: 100000\nlog-levels: info\n",
		env:  []string{"ENGINED_MAILBOX_LIMIT=0"},
		args: []string{"--log-format=xml", "--http-address=0.0.0.0:80", "--grpc-address=:7450"},
	})
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("have %v", err)
	}
	var names []string
	for _, p := range e.Problems {
		names = append(names, p.Option)
	}
	if got, want := strings.Join(names, " "), "shards log-levels mailbox-limit log-format grpc-address http-address"; got != want {
		t.Errorf("have problems with %s, want %s", got, want)
	}
	if !strings.HasPrefix(err.Error(), "configuration: 6 problems\n  shards (") {
		t.Errorf("have %q", err)
	}
}

func TestWithoutInsecureOnlyLoopbackIsAllowed(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:1": "", "127.9.9.9:0": "", "[::1]:1": "", "localhost:1": "", "[::ffff:127.0.0.1]:1": "",
		":1":          "an address without a host, which is every address of this machine, is beyond this machine's loopback",
		"0.0.0.0:1":   "0.0.0.0 is beyond this machine's loopback",
		"[::]:1":      ":: is beyond",
		"192.0.2.1:1": "allow it with --insecure",
		"[fe80::1]:1": "fe80::1 is beyond",
		"here:1":      "here (192.0.2.7) is beyond",
		"nowhere:1":   "the host nowhere cannot be looked up: no such host",
	} {
		for _, option := range []string{"grpc-address", "http-address"} {
			arg := "--" + option + "=" + addr
			_, err := load(t, given{args: []string{arg}})
			switch {
			case want == "" && err != nil:
				t.Errorf("%s: %v", arg, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), option+" (flag --"+option+")")):
				t.Errorf("%s: have %v, want %q in it", arg, err, want)
			}
			if _, err := load(t, given{args: []string{arg, "--insecure"}}); err != nil {
				t.Errorf("%s --insecure: %v", arg, err)
			}
		}
	}
}

func TestAVariableThatIsAlmostAnOptionIsTold(t *testing.T) {
	c, err := load(t, given{env: []string{
		"ENGINED_GRPC_ADRESS=x", "ENGINED_SHARD=4", "ENGINED_PORT=tcp://10.0.0.1:7450", "ENGINED_SERVICE_HOST=10.0.0.1", "ENGINED_ADDRESS=x", "ENGINED_NAMESPACE=x", "SHARDS=1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"the variable ENGINED_GRPC_ADRESS is no option and is passed over; is ENGINED_GRPC_ADDRESS meant?",
		"the variable ENGINED_SHARD is no option and is passed over; is ENGINED_SHARDS meant?",
	}
	if got := strings.Join(c.Warnings, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("have %q", got)
	}
}

// What Show writes can be given as the file, and says the same.
func TestShowWritesAFileThatSaysTheSame(t *testing.T) {
	g := given{
		file: "database: \"true\"\n", env: []string{"ENGINED_HTTP_ADDRESS="},
		args: []string{"--shards=8", "--grpc-address=[::1]:0", "--drain-budget=90s", "--insecure"},
	}
	c, err := load(t, g)
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	if err := c.Show(&shown); err != nil {
		t.Fatal(err)
	}
	again, err := load(t, given{file: shown.String()})
	if err != nil {
		t.Fatalf("%v\n%s", err, shown.String())
	}
	if again.Settings != c.Settings {
		t.Errorf("have %+v\nwant %+v", again.Settings, c.Settings)
	}
	for _, line := range []string{"shards: 8 # flag --shards\n", "resident-runs: 20000 # default\n", "http-address: '' # env ENGINED_HTTP_ADDRESS\n", "# file "} {
		if !strings.Contains(shown.String(), line) {
			t.Errorf("have\n%s\nwant %q in it", shown.String(), line)
		}
	}
}

func TestTheExampleInTheDocumentationIsTheDefault(t *testing.T) {
	var docs strings.Builder
	if err := Docs(&docs); err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(docs.String(), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	c, err := load(t, given{file: example})
	if err != nil {
		t.Fatalf("%v\n%s", err, example)
	}
	plain, err := load(t, given{})
	if err != nil || c.Settings != plain.Settings {
		t.Errorf("have %+v, %v", c.Settings, err)
	}
	for _, o := range options {
		if !strings.Contains(docs.String(), "\n### "+o.Name+"\n") || !strings.Contains(docs.String(), Variable(o.Name)) {
			t.Errorf("%s is not documented", o.Name)
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, s := range []string{"", "shards: 4\n", "a: &x\n  b: *x\n", "- a\n---\n", "? {a: b}\n: c\n", "!!binary x: y", "null"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "engined.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		fs := pflag.NewFlagSet("engined", pflag.ContinueOnError)
		Flags(fs)
		FileFlag(fs)
		if err := fs.Parse([]string{"--config", path}); err != nil {
			t.Fatal(err)
		}
		_, err := Load(t.Context(), Sources{Flags: fs, Lookup: lookup})
		if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
			t.Errorf("%T: %v", err, err)
		}
	})
}
