// Package service is one of the example's four services, in a process of its
// own: a ledger behind HTTP, in bad weather.
//
// It owns the HTTP side and makes the planned faults happen. The rules of a
// service are its ledger's; it must not know who calls it, nor what a saga is.
package service

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/engined/engined/examples/saga/internal/chaos"
	"github.com/engined/engined/examples/saga/internal/ledger"
	"github.com/engined/engined/examples/saga/internal/wire"
)

// Env is the environment variable that makes a process of the example a
// service: its value is the service's name. The configuration follows on the
// standard input, as one line of JSON.
const Env = "ENGINED_EXAMPLE_SERVICE"

// Config is what a service has to know.
type Config struct {
	Service wire.Service `json:"service"`
	// Path is the file of its ledger.
	Path string `json:"path"`
	// Addr is where it listens: 127.0.0.1:0 takes a free port.
	Addr string `json:"addr"`
	// Seed is that of the fault plan. Without one the weather is good.
	Seed *uint64 `json:"seed,omitempty"`
	// Shelves are what stock has at the very start.
	Shelves []wire.Shelf `json:"shelves,omitempty"`

	// Plan stands in for the plan of Seed.
	Plan ledger.Plan `json:"-"`
}

// ReadConfig reads the line that a supervisor writes. What follows it is left in
// r but for a part that may have been buffered.
func ReadConfig(r io.Reader) (Config, error) {
	var c Config
	if err := json.NewDecoder(r).Decode(&c); err != nil {
		return Config{}, fmt.Errorf("read the configuration of a service: %w", err)
	}
	return c, nil
}

func (c Config) plan() ledger.Plan {
	switch {
	case c.Plan != nil:
		return c.Plan
	case c.Seed != nil:
		return chaos.Plan{Seed: *c.Seed}
	default:
		return nil
	}
}

// maxHeader bounds what a client can make a service keep before its handler runs.
const maxHeader = http.DefaultMaxHeaderBytes / 16
