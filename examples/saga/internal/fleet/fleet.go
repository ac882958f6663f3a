// Package fleet runs the four services as processes of their own, starts again
// on the same port what dies, and reads their ledgers in the end.
//
// It owns where they listen and what they have to know. It must not know what a service
// does, nor why it dies.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/engined/engined/examples/saga/internal/proc"
	"github.com/engined/engined/examples/saga/internal/service"
	"github.com/engined/engined/examples/saga/internal/wire"
)

// Config says how to run the services.
type Config struct {
	// Dir is where the ledgers and the services' logs are kept. It must exist.
	Dir string
	// Seed is that of the fault plan; nil has no faults.
	Seed *uint64
	// Shelves are what stock has at the very start.
	Shelves []wire.Shelf
	// Died, if set, is told each death of a service that was not stopped, and how it
	// came, by a goroutine of the fleet.
	Died func(s wire.Service, how error)
}

// Fleet is the running services: a group of processes, which may have others, too.
// Make it with Start.
type Fleet struct {
	*proc.Group
	procs map[wire.Service]*proc.Process
	addrs map[wire.Service]string
}

// anyPort lets a service take a free port.
const anyPort = "127.0.0.1:0"

// Start starts the services, each as this program again with service.Env set,
// and returns when all of them take calls. They end when ctx does.
func Start(ctx context.Context, c Config) (*Fleet, error) {
	f := &Fleet{Group: proc.NewGroup(ctx), procs: map[wire.Service]*proc.Process{}, addrs: map[wire.Service]string{}}
	for _, s := range wire.Services() {
		config := service.Config{Service: s, Path: filepath.Join(c.Dir, string(s)+".db"), Addr: anyPort, Seed: c.Seed}
		if s == wire.Stock {
			config.Shelves = c.Shelves
		}
		p, err := f.Group.Start(c.process(&config))
		if err != nil {
			return nil, errors.Join(err, f.Stop(ctx))
		}
		f.procs[s], f.addrs[s] = p, config.Addr
	}
	return f, nil
}

// process is how to run a service. Its address becomes that of the first start,
// and must stay the same.
func (c Config) process(config *service.Config) proc.Config {
	return proc.Config{
		Name:    string(config.Service),
		Command: proc.Again(service.Env + "=" + string(config.Service)),
		Input:   func() ([]byte, error) { return json.Marshal(config) },
		Said: func(line string) (bool, error) {
			addr, said := strings.CutPrefix(line, service.Ready)
			if said && config.Addr == anyPort {
				config.Addr = addr
			}
			if addr != config.Addr {
				return false, fmt.Errorf("it printed %q and not where it listens", line)
			}
			return true, nil
		},
		Log:   filepath.Join(c.Dir, string(config.Service)+".log"),
		Frail: true,
		Died: func(how error) {
			if c.Died != nil {
				c.Died(config.Service, how)
			}
		},
	}
}

// URL is where a service listens, without a slash at its end. It stays the same
// when the service is started again.
func (f *Fleet) URL(s wire.Service) string { return "http://" + f.addrs[s] }

// Deaths counts how often a service had to be started again.
func (f *Fleet) Deaths(s wire.Service) int64 { return f.procs[s].Deaths() }

// Kill ends a service as kill -9 does. It is started again at once.
func (f *Fleet) Kill(s wire.Service) error { return f.procs[s].Kill() }
