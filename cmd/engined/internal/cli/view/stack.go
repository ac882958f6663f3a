package view

import (
	"path"
	"strconv"
	"strings"

	pb "github.com/engined/engined/proto/enginepb"
)

// where is the place in a user's code at which a failure with a stack arose, as
// " at shop.go:16"; empty without one.
func where(f *pb.Failure) string {
	if at := origin(f.GetStack()); at != "" {
		return " at " + Clean(at)
	}
	return ""
}

// origin is the first frame of a stack, in the form of debug.Stack, that is
// neither Go's own nor engined's: a function's line, then its file's.
func origin(stack string) string {
	goroot, function := "", ""
	for line := range strings.Lines(stack) {
		file, isFile := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "\t")
		if !isFile {
			if function = file; strings.HasPrefix(function, "created by ") {
				return ""
			}
			continue
		}
		file, _, _ = strings.Cut(file, " +0x")
		at := strings.LastIndexByte(file, ':')
		if at < 0 {
			continue
		}
		if n, err := strconv.Atoi(file[at+1:]); err != nil || n < 1 {
			continue
		}
		// The first frame is that of the function that took the stack.
		if root, ok := strings.CutSuffix(file[:at], "runtime/debug/stack.go"); ok {
			goroot = root
		}
		if !ours(function) && (goroot == "" || !strings.HasPrefix(file, goroot)) {
			return path.Base(strings.ReplaceAll(file, `\`, "/"))
		}
	}
	return ""
}

// ours says whether a function is one of Go's runtime or of the parts of engined
// that call a user's code.
func ours(function string) bool {
	for _, prefix := range []string{
		"runtime.", "runtime/", "internal/", "panic(", "reflect.", "iter.",
		"github.com/engined/engined/worker.", "github.com/engined/engined/worker/",
		"github.com/engined/engined/sdk/", "github.com/engined/engined/internal/",
	} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}
