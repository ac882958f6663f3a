//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth is how many characters a line of the terminal has that x is, and 0
// if it is none: /dev/null is a device, and nobody sits there.
func terminalWidth(x any) int {
	f, ok := x.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 {
		return defaultWidth // it does not say
	}
	return int(size.Col)
}
