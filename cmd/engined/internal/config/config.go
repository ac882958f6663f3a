// Package config settles the server's configuration: one table of options
// (options.go), from which come the flags, the names in the environment, the
// keys of the file, the checks, the help and the documentation.
//
// An option has one name, and each source spells it its own way: grpc-address is
// the key in the file, --grpc-address the flag, ENGINED_GRPC_ADDRESS the variable.
// A flag wins over the environment, that over the file, the file over the
// default. Every value that is given is checked, also one that another source
// overrides, and all that is wrong is told at once.
//
// The package must not know what an option is used for, beyond what its text in
// the table says.
package config

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"
)

// Settings are the values in force. What each means stands in the table.
type Settings struct {
	Database                                string
	Shards                                  int // 0: as the database has them
	GRPCAddress, HTTPAddress                string
	Insecure                                bool
	DrainBudget, ReclaimGrace, RestartGrace time.Duration
	LogLevel                                slog.Level
	LogFormat                               string
	ResidentRuns, MailboxLimit              int
}

// Config is what Load has settled.
type Config struct {
	Settings
	// Warnings tell of what was passed over, a line each.
	Warnings []string

	values map[string]value // by option
}

// value is one that was given for an option, as it was written.
type value struct {
	text string
	from Origin
}

// Origin says where a value comes from.
type Origin struct {
	// Source is "flag --shards", "env ENGINED_SHARDS", "file engined.yaml" or
	// "default".
	Source string
	// Line is that of the file, or 0.
	Line int
}

func (o Origin) String() string {
	if o.Line == 0 {
		return o.Source
	}
	return fmt.Sprintf("%s, line %d", o.Source, o.Line)
}

// Sources are where values come from.
type Sources struct {
	// Flags are those that Flags has made, after they were parsed; nil is none.
	Flags *pflag.FlagSet
	// Environ is as os.Environ returns it.
	Environ []string
	// Lookup finds the addresses of a host: the system's resolver if nil.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// From says where the value in force of the option comes from.
func (c *Config) From(option string) Origin { return c.values[option].from }

// Load reads all sources. Its error is an *Error. ctx bounds the look-up of hosts.
func Load(ctx context.Context, src Sources) (*Config, error) {
	if src.Lookup == nil {
		src.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if src.Flags == nil {
		src.Flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	}
	l := loading{c: &Config{values: map[string]value{}}}
	for _, o := range options {
		l.give(o, value{o.Default, Origin{Source: "default"}})
	}
	env := variables(src.Environ)
	if path, named := filePath(src.Flags, env); path != "" {
		l.file(path, named)
	}
	l.env(env)
	l.flags(src.Flags)
	l.loopback(ctx, src.Lookup)
	if len(l.problems) > 0 {
		return nil, &Error{l.problems}
	}
	return l.c, nil
}

// loading collects values, the weakest source first, and what is wrong.
type loading struct {
	c        *Config
	problems []Problem
}

func (l *loading) give(o Option, v value) {
	if o.set(&l.c.Settings, v.text) {
		l.c.values[o.Name] = v
		return
	}
	l.wrong(o.Name, v.from, fmt.Sprintf("%q is not %s", v.text, o.Allowed))
}

func (l *loading) wrong(option string, from Origin, why string) {
	l.problems = append(l.problems, Problem{option, from, why})
}

func (l *loading) flags(fs *pflag.FlagSet) {
	for _, o := range options {
		if f := fs.Lookup(o.Name); f != nil && f.Changed {
			l.give(o, value{f.Value.String(), Origin{Source: "flag --" + o.Name}})
		}
	}
}

func (l *loading) env(env map[string]string) {
	for _, o := range options {
		if text, ok := env[Variable(o.Name)]; ok {
			l.give(o, value{text, Origin{Source: "env " + Variable(o.Name)}})
		}
	}
	// A name that is unknown is not refused: the environment belongs to others
	// too, and a cluster's own variables may begin with ENGINED_. One that is
	// almost an option's is told.
	names := []string{fileVariable}
	for _, o := range options {
		names = append(names, Variable(o.Name))
	}
	var warnings []string
	for name := range env {
		if near := nearest(name, names); near != "" && near != name {
			warnings = append(warnings, fmt.Sprintf("the variable %s is no option and is passed over; is %s meant?", name, near))
		}
	}
	slices.Sort(warnings)
	l.c.Warnings = append(l.c.Warnings, warnings...)
}

func variables(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		if name, text, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, envPrefix) {
			env[name] = text
		}
	}
	return env
}

func filePath(fs *pflag.FlagSet, env map[string]string) (string, Origin) {
	f := fs.Lookup(fileFlag)
	switch {
	case f == nil:
		return "", Origin{}
	case f.Changed:
		return f.Value.String(), Origin{Source: "flag --" + fileFlag}
	}
	return env[fileVariable], Origin{Source: "env " + fileVariable}
}

// Show writes what is in force as a file that says the same, with the source of
// each value beside it.
func (c *Config) Show(w io.Writer) error {
	m := yaml.Node{Kind: yaml.MappingNode}
	for _, o := range options {
		v := c.values[o.Name]
		m.Content = append(m.Content,
			&yaml.Node{Kind: yaml.ScalarNode, Value: o.Name},
			&yaml.Node{Kind: yaml.ScalarNode, Tag: o.tag, Value: v.text, LineComment: "# " + v.from.String()})
	}
	out, err := yaml.Dump(&m)
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	_, err = w.Write(out)
	return err
}
