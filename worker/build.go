package worker

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime/debug"
	"sync"
)

// defaultBuild names the code of this process, the same for every worker in it.
// The executable's own bytes tell best: a revision does not say what was changed
// since, nor with which toolchain it was built.
var defaultBuild = sync.OnceValue(func() string {
	if sum, err := hashExecutable(); err == nil {
		return "exe-" + sum
	}
	if rev := revision(debug.ReadBuildInfo()); rev != "" {
		return "vcs-" + rev
	}
	return "run-" + rand.Text()
})

func hashExecutable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// revision is the version control revision of an unmodified tree, or "".
func revision(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return ""
	}
	rev := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value
		case s.Key == "vcs.modified" && s.Value != "false":
			return ""
		}
	}
	return rev
}
