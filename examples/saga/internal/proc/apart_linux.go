package proc

import "syscall"

// apart keeps the terminal's signals from a process, which are for the program
// that has started it, and ends it with that program: not every process watches
// its input, and a frozen one watches nothing.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
