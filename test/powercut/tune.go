package powercut

import "fmt"

// tuned replaces the pragmas that the tuning is about.
func (d *Driver) tuned(text string) string {
	switch text {
	case "PRAGMA wal_autocheckpoint = 1000":
		if n := d.Tune.Checkpoint; n > 0 {
			return fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", n)
		}
	case "PRAGMA synchronous = FULL":
		if n := d.Tune.Cache; n > 0 {
			return fmt.Sprintf("%s; PRAGMA cache_size = %d", text, n)
		}
	}
	return text
}
