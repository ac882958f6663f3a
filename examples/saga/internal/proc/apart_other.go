//go:build !linux

package proc

import "syscall"

// apart keeps the terminal's signals from a process, which are for the program
// that has started it. When that is killed, what does not watch its input stays.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
