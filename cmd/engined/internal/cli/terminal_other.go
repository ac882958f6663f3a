//go:build !unix

package cli

// terminalWidth is 0 where terminals are not told from other files: nobody is
// asked there.
func terminalWidth(any) int { return 0 }
