package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// scratch is a copy of the project's last commit, to plant bugs in.
type scratch struct{ dir string }

// newScratch copies the commit at HEAD of root into a new folder of dir.
func newScratch(ctx context.Context, root, dir string) (*scratch, error) {
	s := &scratch{dir: dir}
	origin, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "git", "clone", "--quiet", "--shared", origin, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("git clone: %w\n%s", err, out)
	}
	return s, nil
}

func (s *scratch) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", args[0], err, bytes.TrimSpace(out))
	}
	return strings.TrimSpace(string(out)), nil
}

// plant makes the copy clean, and plants a patch.
func (s *scratch) plant(ctx context.Context, file string) error {
	if _, err := s.git(ctx, "checkout", "--quiet", "--force", "HEAD"); err != nil {
		return err
	}
	if _, err := s.git(ctx, "clean", "--quiet", "-fd"); err != nil {
		return err
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	_, err = s.git(ctx, "apply", file)
	return err
}
