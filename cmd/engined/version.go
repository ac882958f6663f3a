package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/server"
)

// Set by a release: go build -ldflags "-X main.version=v1.2.3 -X main.commit=…".
// Otherwise what the go command has recorded is told.
var version, commit string

func build() server.Build {
	b := server.Build{Version: version, Commit: commit, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Commit == "" {
		b.Commit = settings["vcs.revision"]
		if settings["vcs.modified"] == "true" {
			b.Commit += ", modified"
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	return b
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := build()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "engined: %s\ncommit: %s\ngo: %s %s/%s\nprotocol: %d\n",
				b.Version, b.Commit, b.Go, runtime.GOOS, runtime.GOARCH, server.Protocol)
			return err
		},
	}
}
