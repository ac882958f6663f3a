package sdktest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/history"
	"github.com/engined/engined/sdk/failure"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

const reference = "../../docs/sdk.md"

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// flat is Go code without its indentation.
func flat(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// Every block of Go in the reference stands in an example, so it compiles and does
// what it says.
func TestTheReferencesCodeIsTakenFromExamples(t *testing.T) {
	var examples strings.Builder
	for _, pattern := range []string{"../*/example*_test.go", "../../worker/example*_test.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", pattern, paths, err)
		}
		for _, path := range paths {
			examples.WriteString(flat(read(t, path)))
		}
	}
	blocks := strings.Split(read(t, reference), "\n```go\n")[1:]
	if len(blocks) < 5 {
		t.Errorf("only %d blocks of Go were found", len(blocks))
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(examples.String(), flat(code)) {
			t.Errorf("this is in %s, and in no example:\n%s", reference, code)
		}
	}
}

// words tells a time as the reference does.
func words(d time.Duration) string {
	for _, u := range []struct {
		is   time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		switch n := d / u.is; {
		case d%u.is != 0 || n == 0:
		case n == 1:
			return "1 " + u.name
		default:
			return fmt.Sprint(int64(n), " ", u.name, "s")
		}
	}
	return d.String()
}

func TestTheReferencesTablesAreTheCode(t *testing.T) {
	if workflow.DefaultUndoAttempts != workflow.Endless {
		t.Error("an undo's attempts have an end")
	}
	kib := func(n int) string { return fmt.Sprint(n>>10, " KiB") }
	text := read(t, reference)
	for _, row := range []string{
		fmt.Sprintf("| start-to-close: one attempt | %s | %[1]s |", words(workflow.DefaultStartToClose)),
		fmt.Sprintf("| schedule-to-close: all attempts and the waits between them | %s | %s |", words(workflow.DefaultScheduleToClose), words(workflow.DefaultUndoScheduleToClose)),
		fmt.Sprintf("| attempts | %d | without end |", workflow.DefaultAttempts),
		fmt.Sprintf("| base: the ceiling of the first wait | %s | %[1]s |", words(workflow.DefaultBase)),
		fmt.Sprintf("| cap: the ceiling of each wait | %s | %[1]s |", words(workflow.DefaultCap)),
		fmt.Sprintf("| worker lost: after silence | %s | %[1]s |", words(workflow.DefaultWorkerLost)),
		fmt.Sprintf("| cancel grace: time to clean up after a cancel | %s | |", words(workflow.DefaultCancelGrace)),
		fmt.Sprintf("| slots of a worker | %d | |", worker.DefaultSlots),
		fmt.Sprintf("| grace of a worker's stop | %s | |", words(worker.DefaultGrace)),

		fmt.Sprintf("| one input or result, encoded | %d MiB |", history.MaxPayload>>20),
		fmt.Sprintf("| name of a type, a queue, a build | %d bytes |", history.MaxName),
		fmt.Sprintf("| reason of a cancel or terminate | %s |", kib(history.MaxReason)),
		fmt.Sprintf("| message of an error, above which it is cut | %s |", kib(failure.MaxMessage)),
		fmt.Sprintf("| message of a cause, above which it is cut | %s |", kib(failure.MaxCauseMessage)),
		fmt.Sprintf("| fields of a registered error struct, above which they are left out | %s |", kib(failure.MaxDetails)),
		fmt.Sprintf("| errors in one tree, the rest is left out | %d |", failure.MaxErrors),
		fmt.Sprintf("| attempts listed for a step, the newest | %d |", history.MaxAttemptLog),
	} {
		if !strings.Contains(text, "\n"+row+"\n") {
			t.Errorf("%s lacks the row\n%s", reference, row)
		}
	}
	if history.MaxID != 1000 || history.MaxRequestID != 1000 || !strings.Contains(text, "\n| namespace, workflow id, request id | 1,000 bytes |\n") {
		t.Errorf("%s tells another limit of ids", reference)
	}
}
