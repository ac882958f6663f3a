// Package cli is the commands that look inside a running engine: workflow, worker
// and queue. They reach it as any program does, through sdk/client.
//
// It owns the flags, the exit codes and what a person is told to do next. What
// things look like is view's.
package cli
