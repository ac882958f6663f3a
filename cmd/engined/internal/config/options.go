package config

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const (
	envPrefix    = "ENGINED_"
	fileFlag     = "config"
	fileVariable = envPrefix + "CONFIG"
)

// Option is a line of the table.
type Option struct {
	// Name is the key in the file and, behind "--", the flag.
	Name string
	// Default is the value when no source gives one, as it would be written.
	Default string
	// Type is what the value is, in a word.
	Type string
	// Allowed completes "the value is not …".
	Allowed string
	// Doc is its documentation. The first sentence is the flag's help.
	Doc string
	// Choices are the values of a choice.
	Choices []string

	tag string // of the value in YAML
	set func(s *Settings, text string) bool
}

// Variable is an option's name in the environment.
func Variable(option string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// options is the one source of what can be configured.
var options = []Option{
	option("database", "engined.db", path, func(s *Settings) *string { return &s.Database },
		"The SQLite file that holds everything. It is made if it is not there; its directory must be. A relative path begins at the working directory. One process at a time has it."),
	option("shards", "0", number(0, 1<<15), func(s *Settings) *int { return &s.Shards },
		"How many shards a new database gets; 0 is 16 for a new one, and for an old one what it has. The number is fixed when the file is made: another one than it has is refused. Each shard is driven by one goroutine."),
	option("grpc-address", "127.0.0.1:7450", address, func(s *Settings) *string { return &s.GRPCAddress },
		"Where workers, clients and the command line reach the engine (gRPC). Port 0 takes a free one, which is printed. An address beyond this machine's loopback needs `insecure`."),
	option("http-address", "127.0.0.1:7451", orEmpty(address), func(s *Settings) *string { return &s.HTTPAddress },
		"Where `/healthz`, `/readyz` and `/metrics` are served (HTTP); empty turns it off. Port 0 takes a free one, which is printed. An address beyond this machine's loopback needs `insecure`."),
	option("insecure", "false", boolean, func(s *Settings) *bool { return &s.Insecure },
		"Allow addresses beyond this machine's loopback. There is no TLS yet and nobody is asked who they are: whoever reaches the port can read, start and end every workflow. Only for a network in which everybody may."),
	option("drain-budget", "10s", duration(0, time.Hour), func(s *Settings) *time.Duration { return &s.DrainBudget },
		"How long calls and workers' streams may take to end after SIGTERM or SIGINT. What is under way then is cut, and goes on after the next start. Give a supervisor some 10 s more before it kills."),
	option("reclaim-grace", "1s", duration(time.Millisecond, time.Hour), func(s *Settings) *time.Duration { return &s.ReclaimGrace },
		"How long a worker whose stream broke may take to come back before its activities count as lost. Longer spares attempts on a poor network; shorter hands the work of a dead worker over sooner."),
	option("restart-grace", "5s", duration(time.Millisecond, time.Hour), func(s *Settings) *time.Duration { return &s.RestartGrace },
		"The same for workers after the engine itself was started again. Counted from when it reads their runs."),
	option("log-level", "info", levels, func(s *Settings) *slog.Level { return &s.LogLevel },
		"The least level that is logged, on standard error."),
	option("log-format", "text", choice("text", "json"), func(s *Settings) *string { return &s.LogFormat },
		"How logs, and the lines that a start prints, are written. With `json` each is a record on a line of its own."),
	option("resident-runs", "20000", number(1, 1<<31-1), func(s *Settings) *int { return &s.ResidentRuns },
		"How many runs stay in memory that could as well be read again. A run that sleeps costs disk, not memory; one that is kept costs some 10 KiB."),
	option("mailbox-limit", "10000", number(1, 1<<31-1), func(s *Settings) *int { return &s.MailboxLimit },
		"How many requests may wait in one shard. Above it new ones are refused, with a code that says to come back later."),
}

// kind is how the text of a value is read.
type kind[T any] struct {
	word, allowed, tag string
	choices            []string
	parse              func(text string) (T, bool)
}

func option[T any](name, def string, k kind[T], at func(*Settings) *T, doc string) Option {
	return Option{
		Name: name, Default: def, Type: k.word, Allowed: k.allowed, Doc: doc, Choices: k.choices, tag: k.tag,
		set: func(s *Settings, text string) bool {
			v, ok := k.parse(text)
			if ok {
				*at(s) = v
			}
			return ok
		},
	}
}

var path = kind[string]{
	word: "path", allowed: "the path of a file", tag: "!!str",
	parse: func(text string) (string, bool) { return text, text != "" && !strings.ContainsRune(text, 0) },
}

var boolean = kind[bool]{
	word: "bool", allowed: "true or false", tag: "!!bool",
	parse: func(text string) (bool, bool) { return text == "true", text == "true" || text == "false" },
}

var address = kind[string]{
	word: "address", allowed: "an address host:port with a port from 0 to 65535, such as 127.0.0.1:7450 or [::1]:0", tag: "!!str",
	parse: func(text string) (string, bool) {
		_, port, err := net.SplitHostPort(text)
		if err != nil {
			return "", false
		}
		_, err = strconv.ParseUint(port, 10, 16)
		return text, err == nil
	},
}

func orEmpty(k kind[string]) kind[string] {
	parse := k.parse
	k.allowed += ", or empty"
	k.parse = func(text string) (string, bool) {
		if text == "" {
			return "", true
		}
		return parse(text)
	}
	return k
}

func number(least, most int) kind[int] {
	return kind[int]{
		word: "number", allowed: fmt.Sprintf("a whole number from %d to %d", least, most), tag: "!!int",
		parse: func(text string) (int, bool) {
			n, err := strconv.Atoi(text)
			return n, err == nil && least <= n && n <= most
		},
	}
}

func duration(least, most time.Duration) kind[time.Duration] {
	return kind[time.Duration]{
		word: "duration", tag: "!!str",
		allowed: fmt.Sprintf("a time with its unit, such as 500ms, 10s or 2m, from %v to %s", least, strings.TrimSuffix(most.String(), "0m0s")),
		parse: func(text string) (time.Duration, bool) {
			d, err := time.ParseDuration(text)
			return d, err == nil && least <= d && d <= most
		},
	}
}

func choice(words ...string) kind[string] {
	return kind[string]{
		word: "word", allowed: oneOf(words), tag: "!!str", choices: words,
		parse: func(text string) (string, bool) { return text, slices.Contains(words, text) },
	}
}

var levelWords = []string{"debug", "info", "warn", "error"}

var levels = kind[slog.Level]{
	word: "word", allowed: oneOf(levelWords), tag: "!!str", choices: levelWords,
	parse: func(text string) (slog.Level, bool) {
		var l slog.Level
		return l, slices.Contains(levelWords, text) && l.UnmarshalText([]byte(text)) == nil
	},
}

func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Flags adds a flag for each option, to be listed in the order of the table.
func Flags(fs *pflag.FlagSet) {
	fs.SortFlags = false
	for _, o := range options {
		help, _, _ := strings.Cut(o.Doc, ". ")
		help = strings.NewReplacer("`", "").Replace(strings.TrimSuffix(help, "."))
		f := fs.VarPF(&flagValue{o.Default, o.Type}, o.Name, "", fmt.Sprintf("%s (%s)", help, Variable(o.Name)))
		if o.Type == boolean.word {
			f.NoOptDefVal = "true"
		}
	}
}

// FileFlag adds the flag that names the file.
func FileFlag(fs *pflag.FlagSet) {
	fs.Var(&flagValue{"", "file"}, fileFlag, fmt.Sprintf("A YAML file with options (%s)", fileVariable))
}

// Choices are the options that take one of a few words, with these.
func Choices() map[string][]string {
	all := map[string][]string{}
	for _, o := range options {
		if o.Choices != nil {
			all[o.Name] = o.Choices
		}
	}
	return all
}

// flagValue takes any text: Load checks it, together with all others.
type flagValue struct{ text, word string }

func (v *flagValue) String() string { return v.text }

// Set fulfils pflag.Value.
func (v *flagValue) Set(text string) error {
	v.text = text
	return nil
}

// Type fulfils pflag.Value.
func (v *flagValue) Type() string { return v.word }
