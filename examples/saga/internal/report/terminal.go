package report

import "os"

// IsTerminal says whether f shows colours: it is a terminal that does, and the
// user has not asked for none (NO_COLOR, see no-color.org).
func IsTerminal(f *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return false
	}
	info, err := f.Stat()
	// A character device is near enough: of the others nobody reads the page.
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
