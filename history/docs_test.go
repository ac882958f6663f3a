package history_test

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/engined/engined/proto/enginepb"
)

const catalogue = "../docs/history.md"

// sections cuts the catalogue by the headings of its third level.
func sections(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(catalogue)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	name := ""
	for line := range strings.Lines(string(data)) {
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			name = strings.TrimSpace(heading)
			all[name] = ""
		} else if strings.HasPrefix(line, "#") {
			name = ""
		}
		if name != "" {
			all[name] += line
		}
	}
	return all
}

func TestTheCatalogueHasEveryKindWithEveryField(t *testing.T) {
	all := sections(t)
	body := (*pb.Event)(nil).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range body.Len() {
		kind := body.Get(i).Message()
		text, ok := all[string(kind.Name())]
		if !ok {
			t.Errorf("%s has no heading for %s", catalogue, kind.Name())
			continue
		}
		delete(all, string(kind.Name()))
		checkFields(t, kind, text)
	}
	for name := range all {
		t.Errorf("%s tells of %s, which is no kind of event", catalogue, name)
	}
}

func checkFields(t *testing.T, kind protoreflect.MessageDescriptor, text string) {
	t.Helper()
	for i := range kind.Fields().Len() {
		name := string(kind.Fields().Get(i).Name())
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s, under %s, does not tell of %s", catalogue, kind.Name(), name)
		}
	}
}
