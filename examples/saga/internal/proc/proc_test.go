package proc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/engined/engined/examples/saga/internal/proc"
)

// env makes the test binary a child; its value says which.
const env = "PROC_TEST"

func TestMain(m *testing.M) {
	what := os.Getenv(env)
	if what == "" {
		os.Exit(m.Run())
	}
	if err := play(what); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(what string) error {
	switch what {
	case "echo": // says back what it is given, then that it is ready, and waits
		in := bufio.NewReader(os.Stdin)
		line, err := in.ReadString('\n')
		fmt.Print(line, "ready\n")
		<-proc.Child(context.Background(), in).Done()
		fmt.Println("bye")
		return err
	case "fall": // ends soon after it was ready
		fmt.Println("ready")
		return errors.New("it fell")
	case "mute":
		return errors.New("it has nothing to say")
	case "deaf": // ends by a signal alone
		fmt.Println("ready")
		select {}
	case "parent": // is killed, and must take with it what does not watch its input
		g := proc.NewGroup(context.Background())
		_, err := g.Start(proc.Config{Name: "orphan", Command: proc.Again(env + "=orphan"), Log: os.DevNull, Said: isReady})
		fmt.Println("ready")
		<-proc.Child(context.Background(), os.Stdin).Done()
		return err
	case "orphan":
		c, err := net.Dial("tcp", os.Getenv("PROC_TEST_ADDR"))
		if err != nil {
			return err
		}
		fmt.Println("ready")
		_, err = io.Copy(io.Discard, c)
		return err
	default:
		return errors.New("what am I?")
	}
}

func isReady(line string) (bool, error) { return line == "ready", nil }

// config is that of a child which keeps what it says in lines.
func config(t *testing.T, what string, lines chan<- string) proc.Config {
	return proc.Config{
		Name: what, Command: proc.Again(env + "=" + what), Log: filepath.Join(t.TempDir(), "log"),
		Said: func(line string) (bool, error) {
			if lines != nil {
				lines <- line
			}
			return isReady(line)
		},
	}
}

func group(t *testing.T) *proc.Group {
	g := proc.NewGroup(context.Background()) // t's ends before the cleanup
	t.Cleanup(func() { _ = g.Stop(context.Background()) })
	return g
}

func start(t *testing.T, g *proc.Group, c proc.Config) *proc.Process {
	t.Helper()
	p, err := g.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func hears(t *testing.T, lines <-chan string, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-lines:
			if got != w {
				t.Fatalf("it said %q, want %q", got, w)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("it did not say %q", w)
		}
	}
}

func TestAKilledProcessIsStartedAgainWithWhatHoldsThen(t *testing.T) {
	lines := make(chan string, 10)
	c := config(t, "echo", lines)
	n := 0
	c.Input = func() ([]byte, error) { n++; return fmt.Appendf(nil, "%d\n", n), nil }
	g := group(t)
	p := start(t, g, c)
	hears(t, lines, "1", "ready")
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	hears(t, lines, "2", "ready")
	if p.Deaths() != 1 {
		t.Errorf("%d deaths", p.Deaths())
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	hears(t, lines, "bye")
}

func TestAProcessThatEndsByItselfEndsTheGroup(t *testing.T) {
	g := group(t)
	start(t, g, config(t, "fall", nil))
	<-g.Context().Done()
	if err := g.Err(); err == nil || !strings.Contains(err.Error(), "fall has ended by itself") || !strings.Contains(err.Error(), "it fell") {
		t.Error(err)
	}
	if err := g.Stop(t.Context()); !errors.Is(err, g.Err()) {
		t.Errorf("Stop says %v", err)
	}
}

func TestAFrailOneIsStartedAgain(t *testing.T) {
	deaths := make(chan error)
	c := config(t, "fall", nil)
	c.Frail, c.Died = true, func(how error) {
		select {
		case deaths <- how:
		case <-t.Context().Done():
		}
	}
	start(t, group(t), c)
	for range 2 {
		if how := <-deaths; how == nil {
			t.Error("nobody says how it died")
		}
	}
}

func TestAProcessThatIsNeverReadySaysWhy(t *testing.T) {
	_, err := group(t).Start(config(t, "mute", nil))
	if err == nil || !strings.Contains(err.Error(), "it has nothing to say") {
		t.Error(err)
	}
}

func TestALineThatIsRefusedEndsTheGroup(t *testing.T) {
	c := config(t, "echo", nil)
	c.Input = func() ([]byte, error) { return []byte("hello\n"), nil }
	wrong := errors.New("wrong")
	c.Said = func(line string) (bool, error) {
		if line == "bye" {
			return false, wrong
		}
		return isReady(line)
	}
	g := group(t)
	start(t, g, c)
	if err := g.Stop(t.Context()); !errors.Is(err, wrong) {
		t.Errorf("have %v", err)
	}
	c.Said = func(string) (bool, error) { return false, wrong }
	if _, err := group(t).Start(c); !errors.Is(err, wrong) {
		t.Errorf("before it was ready: have %v", err)
	}
}

func TestAFrozenProcessDoesNothingUntilItIsThawed(t *testing.T) {
	lines := make(chan string, 10)
	c := config(t, "echo", lines)
	c.Input = func() ([]byte, error) { return []byte("hello\n"), nil }
	g := group(t)
	p := start(t, g, c)
	hears(t, lines, "hello", "ready")
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := g.Stop(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it has ended: %v", err)
	}
	select {
	case line := <-lines:
		t.Errorf("it said %q", line)
	default:
	}
	// Killed all the same.
	g = group(t)
	p = start(t, g, c)
	hears(t, lines, "hello", "ready")
	if err := errors.Join(p.Freeze(), p.Thaw()); err != nil {
		t.Fatal(err)
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	hears(t, lines, "bye")
}

func TestASignalAsksWhatDoesNotWatchItsInput(t *testing.T) {
	g := group(t)
	c := config(t, "deaf", nil)
	c.Ask = syscall.SIGTERM
	start(t, g, c)
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAProcessDoesNotOutliveItsStarter(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("only Linux promises it of a process that does not watch its input")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	t.Setenv("PROC_TEST_ADDR", l.Addr().String())
	parent, err := proc.Again(env + "=parent")(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parent.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); !errors.As(err, &exit) {
		t.Errorf("the parent ended with %v", err)
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the orphan is still there")
	}
}
