package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/workflow"
)

// The documentation is what the table says. Written anew with:
// go run ./cmd/engined config docs > docs/configuration.md
func TestTheDocumentationIsWhatTheTableSays(t *testing.T) {
	want, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	code, out, _ := command(t, "config", "docs")
	if code != 0 || out != string(want) {
		t.Error("docs/configuration.md is old: go run ./cmd/engined config docs > docs/configuration.md")
	}
}

// command runs a command line in this process.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestAWrongCommandLineIsToldInALineAndEndsWithCode2(t *testing.T) {
	for line, want := range map[string]string{
		"serve --nothing":               "engined: unknown flag: --nothing\nsee engined serve --help\n",
		"nothing":                       "engined: unknown command \"nothing\" for \"engined\"\nsee engined --help\n",
		"config nothing":                "engined: unknown command \"nothing\" for \"engined config\"\nsee engined config --help\n",
		"workflow nothing":              "engined: unknown command \"nothing\" for \"engined workflow\"\nsee engined workflow --help\n",
		"workflow list --output x":      "engined: --output \"x\": it is one of table, json, jsonl",
		"dev x":                         "engined: unknown command \"x\" for \"engined dev\"\nsee engined dev --help\n",
		"dev --config x":                "engined: unknown flag: --config\nsee engined dev --help\n",
		"serve --shards x":              "engined: configuration: shards (flag --shards): \"x\" is not a whole number from 0 to 32768\n",
		"config show --shards x":        "engined: configuration: shards (flag --shards): \"x\" is not a whole number from 0 to 32768\n",
		"serve --grpc-address :0":       "engined: configuration: grpc-address (flag --grpc-address): an address without a host, ",
		"serve --http-address 0.0.0.0:": "engined: configuration: http-address (flag --http-address): \"0.0.0.0:\" is not an address ",
		"serve --config /nothing":       "engined: configuration: config (flag --config): the file cannot be read: open /nothing: no such file or directory\n",
	} {
		code, out, errs := command(t, strings.Fields(line)...)
		if code != 2 || out != "" || !strings.HasPrefix(errs, want) {
			t.Errorf("%s: code %d, out %q, have %q\nwant %q", line, code, out, errs, want)
		}
	}
}

func TestVersionTellsTheBuild(t *testing.T) {
	code, out, _ := command(t, "version")
	if code != 0 || !strings.HasPrefix(out, "engined: ") || !strings.Contains(out, "\ncommit: ") || !strings.Contains(out, "\ngo: go1.") || !strings.Contains(out, "\nprotocol: 1\n") {
		t.Errorf("code %d, have %q", code, out)
	}
}

func TestShellsCompleteOptionsAndTheirWords(t *testing.T) {
	if code, out, _ := command(t, "completion", "bash"); code != 0 || !strings.Contains(out, "engined") {
		t.Errorf("code %d, have %q", code, out)
	}
	if _, out, _ := command(t, "__complete", "serve", "--log-format", ""); !strings.HasPrefix(out, "text\njson\n") {
		t.Errorf("have %q", out)
	}
	if _, out, _ := command(t, "__complete", "serve", "--grpc"); !strings.HasPrefix(out, "--grpc-address\t") {
		t.Errorf("have %q", out)
	}
}

func TestHelpNamesEveryOptionAndItsVariable(t *testing.T) {
	code, out, _ := command(t, "serve", "--help")
	for _, want := range []string{"--config file", "--grpc-address address", "ENGINED_GRPC_ADDRESS", "(default 127.0.0.1:7450)", "Exit codes: 0 "} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("code %d, the help lacks %q", code, want)
		}
	}
}

// binary is the program, built once for the tests that need a process.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "engined")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "engined")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-X main.version=v0.0.7 -X main.commit=abc", "-o", binary, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// process is the program as it runs.
type process struct {
	cmd    *exec.Cmd
	lines  map[string]string // what it printed before "ready"
	out    *bufio.Scanner
	stderr bytes.Buffer
}

// launch runs the program in dir until it prints "ready".
func launch(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, args...), lines: map[string]string{}}
	p.cmd.Dir, p.cmd.Stderr = dir, &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	p.out = bufio.NewScanner(stdout)
	for p.out.Scan() {
		if p.out.Text() == "ready" {
			return p
		}
		name, text, _ := strings.Cut(p.out.Text(), ": ")
		p.lines[name] = text
	}
	t.Fatalf("it ended before it was ready: %v\n%s", p.cmd.Wait(), p.stderr.String())
	return nil
}

// end sends a signal and returns what else it printed, and its exit code.
func (p *process) end(t *testing.T, sig os.Signal) (rest string, code int) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for p.out.Scan() {
		b.WriteString(p.out.Text() + "\n")
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return b.String(), p.cmd.ProcessState.ExitCode()
}

func hold(workflow.Context, string) (string, error) { return "", nil }

// A start that was acknowledged is there after SIGTERM and after kill -9.
func TestTheProgramStopsInOrderAndGoesOnWithTheSameFile(t *testing.T) {
	dir := t.TempDir()
	args := []string{"serve", "--grpc-address=127.0.0.1:0", "--http-address=127.0.0.1:0"}
	began := 0
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGKILL, syscall.SIGTERM} {
		p := launch(t, dir, args...)
		if p.lines["version"] != "v0.0.7" || p.lines["shards"] != "16" || !filepath.IsAbs(p.lines["database"]) {
			t.Errorf("it printed %v", p.lines)
		}
		if want := map[bool]string{true: "new", false: "kept"}[began == 0]; p.lines["file"] != want {
			t.Errorf("the file is %s, want %s", p.lines["file"], want)
		}
		c, err := client.Dial(p.lines["grpc"], client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range began {
			_, err := client.Start(t.Context(), c, hold, "", client.ID(id(i)))
			if !client.IsAlreadyExists(err) {
				t.Errorf("run %d is gone: %v", i, err)
			}
		}
		if _, err := client.Start(t.Context(), c, hold, "", client.ID(id(began))); err != nil {
			t.Fatal(err)
		}
		began++
		c.Close()
		_, code := p.end(t, sig)
		if want := map[bool]int{true: -1, false: 0}[sig == syscall.SIGKILL]; code != want {
			t.Errorf("%v: code %d, want %d\n%s", sig, code, want, p.stderr.String())
		}
	}
}

func id(i int) string { return "run-" + string(rune('a'+i)) }

// A call that only waits does not hold the stop up.
func TestAClientThatWaitsDoesNotHoldTheStopUp(t *testing.T) {
	p := launch(t, t.TempDir(), "serve", "--grpc-address=127.0.0.1:0", "--http-address=", "--drain-budget=1h")
	c, err := client.Dial(p.lines["grpc"], client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run, err := client.Start(t.Context(), c, hold, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := run.Result(ctx)
		waited <- err
	}()
	if _, code := p.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("code %d\n%s", code, p.stderr.String())
	}
	cancel()
	if err := <-waited; err == nil {
		t.Error("a run without a worker has a result")
	}
}

func TestAPortInUseEndsTheProgramWithOneLineAndCode1(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for format, want := range map[string]string{
		"text": "engined: grpc-address (flag --grpc-address): " + taken.Addr().String() + " is in use by another process",
		"json": `"level":"ERROR","msg":"engined ends","err":"grpc-address (flag --grpc-address): `,
	} {
		cmd := exec.Command(binary, "serve", "--http-address=", "--grpc-address", taken.Addr().String(), "--log-format", format)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%v: %s", err, out)
		}
	}
}

func TestDevKeepsItsFileAndSaysHowToTryIt(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{"The database is new, and is kept when this ends.", "The database was here; what it holds goes on."} {
		p := launch(t, dir, "dev", "--grpc-address=127.0.0.1:0", "--http-address=")
		if filepath.Base(p.lines["database"]) != "engined.db" {
			t.Errorf("it printed %v", p.lines)
		}
		// What it says to try works.
		try := strings.Fields("workflow list --address " + p.lines["grpc"])
		if code, _, errs := command(t, try...); code != 0 {
			t.Errorf("%v: code %d, %s", try, code, errs)
		}
		rest, code := p.end(t, os.Interrupt)
		if code != 0 || !strings.Contains(rest, want) || !strings.Contains(rest, "    engined "+strings.Join(try, " ")+"\n") {
			t.Errorf("code %d, it printed %q", code, rest)
		}
	}
}
