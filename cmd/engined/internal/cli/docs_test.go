package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/engined/engined/proto/enginepb"
)

func documentation(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestTheDocumentationHasEveryCommandFlagAndWord(t *testing.T) {
	doc := documentation(t)
	var all func(c *cobra.Command, path string)
	all = func(c *cobra.Command, path string) {
		path = strings.TrimSpace(path + " " + c.Name())
		if !c.HasSubCommands() && !strings.Contains(doc, "`"+path) {
			t.Errorf("it lacks %s", path)
		}
		for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(c.Flags().FlagUsages(), -1) {
			if !strings.Contains(doc, flag) {
				t.Errorf("it lacks %s of %s", flag, path)
			}
		}
		for _, sub := range c.Commands() {
			all(sub, path)
		}
	}
	for _, c := range Commands() {
		all(c, "")
	}
	for _, w := range filterWords() {
		if !strings.Contains(doc, "`"+w+"`") {
			t.Errorf("it lacks --status %s", w)
		}
	}
}

// The same codes with the same words stand in the help.
func TestTheDocumentationHasTheExitCodesOfTheHelp(t *testing.T) {
	doc := strings.NewReplacer("`", "", "\n", " ").Replace(documentation(t))
	entry := regexp.MustCompile(`(?m)^(\d+) +((?:.|\n )*)`)
	found := entry.FindAllStringSubmatch(exitCodesTopic().Long, -1)
	if len(found) != 8 {
		t.Errorf("the help has %d codes", len(found))
	}
	for _, e := range found {
		if want := "| " + e[1] + " | " + strings.Join(strings.Fields(e[2]), " ") + " |"; !strings.Contains(doc, want) {
			t.Errorf("it lacks %q", want)
		}
	}
}

func TestTheDocumentationHasEveryFieldThatProgramsRead(t *testing.T) {
	doc := documentation(t)
	named := func(name protoreflect.Name) bool {
		return strings.Contains(doc, "`"+string(name)+"`") || strings.Contains(doc, `"`+string(name)+`"`)
	}
	for _, m := range []protoreflect.ProtoMessage{
		&pb.RunInfo{}, &pb.Hold{}, &pb.Result{}, &pb.DescribeResponse{}, &pb.Waiting{}, &pb.Attempt{}, &pb.Failure{},
		&pb.WorkerInfo{}, &pb.QueueInfo{}, &pb.QueueType{},
	} {
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if !named(f.Name()) && !strings.Contains(internal, string(f.FullName())) {
				t.Errorf("it lacks %s", f.FullName())
			}
			for j := range values(f) {
				word := strings.ToLower(strings.TrimPrefix(string(f.Enum().Values().Get(j+1).Name()), prefixes[f.Enum().Name()]))
				if !named(protoreflect.Name(word)) && word != "soft_deadline" && word != "hard_deadline" {
					t.Errorf("it lacks the word %s of %s", word, f.FullName())
				}
			}
		}
	}
}

// internal names what view.JSON leaves out.
const internal = "engined.v1.RunInfo.run engined.v1.Attempt.incarnation"

// values counts the words of an enum, but for the first, which is never shown.
func values(f protoreflect.FieldDescriptor) int {
	if f.Kind() != protoreflect.EnumKind {
		return 0
	}
	return f.Enum().Values().Len() - 1
}

var prefixes = map[protoreflect.Name]string{
	"Status": "STATUS_", "UndoState": "UNDO_STATE_", "HoldKind": "HOLD_KIND_", "Limit": "LIMIT_", "EntryOutcome": "ENTRY_OUTCOME_", "Outcome": "OUTCOME_",
}
