package dial

import (
	"slices"
	"testing"
)

func TestAnAddressIsOneHostOrSeveral(t *testing.T) {
	for address, want := range map[string][]string{
		"engine":                  {"engine:7450"},
		"engine.example:80":       {"engine.example:80"},
		" a , b:1,\tc ":           {"a:7450", "b:1", "c:7450"},
		"127.0.0.1":               {"127.0.0.1:7450"},
		"::1":                     {"[::1]:7450"},
		"[::1]":                   {"[::1]:7450"},
		"[::1]:9,fe80::1%eth0":    {"[::1]:9", "[fe80::1%eth0]:7450"},
		"my_engine.default.svc:1": {"my_engine.default.svc:1"},
	} {
		if got, err := parse(address); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %q, %v; want %q", address, got, err, want)
		}
	}
}
