package history_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Golden files are the promise that a history written once is read for ever.
// They are added, never rewritten: a kind that got a new field gets another
// file (Kind.2.bin), and the old one must still be read.
var add = flag.Bool("add", false, "write the golden files that are missing")

const goldenDir = "testdata/golden"

// golden is one message that is stored.
type golden struct {
	name   string
	msg    proto.Message
	encode func(proto.Message) []byte
	decode func([]byte) (proto.Message, error)
	line   func(proto.Message) string
}

func goldens(t *testing.T) []golden {
	t.Helper()
	var all []golden
	body := (*pb.Event)(nil).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range body.Len() {
		e := &pb.Event{}
		fill(e.ProtoReflect(), body.Get(i), nil)
		all = append(all, golden{
			name: history.Kind(e), msg: e,
			encode: func(m proto.Message) []byte { return must(history.Append(nil, []*pb.Event{m.(*pb.Event)})) },
			decode: decodeOne,
			line:   func(m proto.Message) string { return history.Line(m.(*pb.Event)) },
		})
	}
	pending := (*pb.Pending)(nil).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range pending.Len() {
		p := &pb.Pending{}
		fill(p.ProtoReflect(), pending.Get(i), nil)
		all = append(all, row("row."+string(pending.Get(i).Message().Name()), p))
	}
	for _, m := range []proto.Message{&pb.RunState{}, &pb.DedupState{}} {
		fill(m.ProtoReflect(), nil, nil)
		all = append(all, row("row."+string(m.ProtoReflect().Descriptor().Name()), m))
	}
	return all
}

// row is a message that is the content of a row by itself.
func row(name string, m proto.Message) golden {
	return golden{
		name: name, msg: m,
		encode: func(m proto.Message) []byte { return must(proto.MarshalOptions{Deterministic: true}.Marshal(m)) },
		decode: func(data []byte) (proto.Message, error) {
			got := m.ProtoReflect().New().Interface()
			return got, proto.Unmarshal(data, got)
		},
	}
}

func decodeOne(data []byte) (proto.Message, error) {
	events, err := history.Decode(data)
	if err != nil {
		return nil, err
	}
	if len(events) != 1 {
		return nil, fmt.Errorf("%d events, want 1", len(events))
	}
	return events[0], nil
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

func TestEveryStoredMessageIsReadAsItWasWritten(t *testing.T) {
	known := map[string]bool{}
	for _, g := range goldens(t) {
		known[g.name] = true
		t.Run(g.name, func(t *testing.T) {
			missing := fields(g.msg)
			n := 1
			for ; ; n++ {
				data, err := os.ReadFile(goldenPath(g.name, n, ".bin"))
				if errors.Is(err, fs.ErrNotExist) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				for field := range g.check(t, n, data) {
					delete(missing, field)
				}
			}
			if len(missing) == 0 {
				return
			}
			if !*add {
				t.Fatalf("no golden file has the fields %v: run go test ./history -run %s -add, and commit what it writes", slices.Sorted(maps.Keys(missing)), t.Name())
			}
			g.write(t, n)
		})
	}
	for _, path := range mustGlob(filepath.Glob(goldenDir + "/*.bin")) {
		name := withoutNumber(strings.TrimSuffix(filepath.Base(path), ".bin"))
		if !known[name] {
			t.Errorf("%s is of a message that no longer exists: what was stored once must be readable", path)
		}
	}
}

// withoutNumber is "Kind" for "Kind.2".
func withoutNumber(s string) string {
	i := strings.LastIndexByte(s, '.')
	if i < 0 || strings.Trim(s[i+1:], "0123456789") != "" {
		return s
	}
	return s[:i]
}

func mustGlob(paths []string, err error) []string {
	if err != nil {
		panic(err)
	}
	return paths
}

func goldenPath(name string, n int, ext string) string {
	if n > 1 {
		name = fmt.Sprintf("%s.%d", name, n)
	}
	return filepath.Join(goldenDir, name+ext)
}

// check reads one golden file and returns the fields that it has.
func (g golden) check(t *testing.T, n int, data []byte) map[string]bool {
	t.Helper()
	path := goldenPath(g.name, n, ".bin")
	got, err := g.decode(data)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if again := g.encode(got); !bytes.Equal(again, data) {
		t.Errorf("%s: decoded and encoded again it is other bytes:\nhave %x\nwant %x", path, again, data)
	}
	same(t, path, got.ProtoReflect(), g.msg.ProtoReflect())
	if g.line == nil {
		return fields(got)
	}
	text, err := os.ReadFile(goldenPath(g.name, n, ".txt"))
	if err != nil {
		t.Fatal(err)
	}
	if line := g.line(got) + "\n"; line != string(text) {
		t.Errorf("%s reads otherwise:\nhave %swant %s", path, line, text)
	}
	return fields(got)
}

func (g golden) write(t *testing.T, n int) {
	t.Helper()
	writeNew(t, goldenPath(g.name, n, ".bin"), g.encode(g.msg))
	if g.line != nil {
		writeNew(t, goldenPath(g.name, n, ".txt"), []byte(g.line(g.msg)+"\n"))
	}
}

// writeNew refuses to write over a file.
func writeNew(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("wrote %s", path)
}

// same fails unless every field that got has holds what fill gives it. The
// values tell the field's name and number, so two fields that changed places
// are seen, also where their types are the same.
func same(t *testing.T, path string, got, want protoreflect.Message) {
	t.Helper()
	if u := got.GetUnknown(); len(u) > 0 {
		t.Errorf("%s: %s has fields that this build does not know: %x", path, got.Descriptor().FullName(), u)
	}
	got.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		where := path + ": " + string(f.FullName())
		w := want.Get(f)
		switch {
		case !want.Has(f):
			t.Errorf("%s is set, and is not written any more", where)
		case f.IsMap():
			if !v.Equal(w) {
				t.Errorf("%s: have %v, want %v", where, v, w)
			}
		case f.IsList() && f.Message() != nil:
			if v.List().Len() != w.List().Len() {
				t.Errorf("%s: have %d elements, want %d", where, v.List().Len(), w.List().Len())
				break
			}
			for i := range v.List().Len() {
				same(t, where, v.List().Get(i).Message(), w.List().Get(i).Message())
			}
		case f.Message() != nil && !f.IsList():
			same(t, where, v.Message(), w.Message())
		case !v.Equal(w):
			t.Errorf("%s: have %v, want %v: a number was given to another field", where, v, w)
		}
		return true
	})
}

// fields lists every field that is set in m, by its full name.
func fields(m proto.Message) map[string]bool {
	set := map[string]bool{}
	var walk func(m protoreflect.Message)
	walk = func(m protoreflect.Message) {
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			set[string(f.FullName())] = true
			switch {
			case f.IsMap() || f.Message() == nil:
			case f.IsList():
				for i := range v.List().Len() {
					walk(v.List().Get(i).Message())
				}
			default:
				walk(v.Message())
			}
			return true
		})
	}
	walk(m.ProtoReflect())
	return set
}

// fill sets every field of m to a value that its name and number give. Of a
// oneof only the field `one` is set. A message inside itself is set once.
func fill(m protoreflect.Message, one protoreflect.FieldDescriptor, above []protoreflect.FullName) {
	above = append(above, m.Descriptor().FullName())
	all := m.Descriptor().Fields()
	for i := range all.Len() {
		f := all.Get(i)
		switch {
		case f.ContainingOneof() != nil && f != one:
		case f.Message() != nil && !f.IsMap() && count(above, f.Message().FullName()) > 1:
		case f.IsMap():
			entries := m.Mutable(f).Map()
			for i := range 2 {
				entries.Set(scalar(f.MapKey(), i, f).MapKey(), scalar(f.MapValue(), i, f))
			}
		case f.IsList() && f.Message() != nil:
			fill(m.Mutable(f).List().AppendMutable().Message(), nil, above)
		case f.IsList():
			for i := range 2 {
				m.Mutable(f).List().Append(scalar(f, i, f))
			}
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), nil, above)
		default:
			m.Set(f, scalar(f, 0, f))
		}
	}
}

func count(names []protoreflect.FullName, name protoreflect.FullName) int {
	n := 0
	for _, x := range names {
		if x == name {
			n++
		}
	}
	return n
}

// scalar is the i-th value of kind f, for the field `of`.
func scalar(f protoreflect.FieldDescriptor, i int, of protoreflect.FieldDescriptor) protoreflect.Value {
	n := int64(of.Number())*1000 + int64(i)
	for _, c := range string(of.Name()) {
		n = n*31%1_000_003 + int64(c)
	}
	text := fmt.Sprintf("%d.%s.%s.%d", of.Number(), of.Name(), f.Name(), i)
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(text))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.EnumKind:
		// Not by the number of values: that grows. No message has two fields of
		// one enum, so the same value everywhere hides nothing.
		return protoreflect.ValueOfEnum(1)
	default:
		panic(fmt.Sprintf("%s: the filler knows no %s: add it", f.FullName(), f.Kind()))
	}
}

func TestKeysAreForEver(t *testing.T) {
	for _, k := range []struct {
		chain, op  string
		generation int32
		role       pb.Role
		want       string
	}{
		{"01J00000000000000000000000", "#1", 0, pb.Role_ROLE_FORWARD, "m16ijhvsr6elsmh8uof4il6d23"},
		{"01J00000000000000000000000", "#1", 0, pb.Role_ROLE_UNDO, "9if66dubh90t1pk6skl585h5a8"},
		{"01J00000000000000000000000", "#1", 1, pb.Role_ROLE_FORWARD, "2s2ofpe3ks02rhb01qmfrpdfr1"},
		{"01J00000000000000000000000", "2[13]#7", 0, pb.Role_ROLE_FORWARD, "nvkrfl8fd1hvqm8ssi6llroar7"},
		{"", "", 0, pb.Role_ROLE_FORWARD, "vjh5ksrsqo5a63o8e6vlhhue9t"},
		{"chain#", "1", 0, pb.Role_ROLE_FORWARD, "u0mrqvu5rdpqmdvdai2bhhgrob"},
		{"chain", "#1", 0, pb.Role_ROLE_FORWARD, "llqk55uc3vh6dt2li2s83sdf3a"},
	} {
		if got := history.Key(k.chain, k.op, k.generation, k.role); got != k.want {
			t.Errorf("Key(%q, %q, %d, %s) = %q, want %q", k.chain, k.op, k.generation, k.role, got, k.want)
		}
	}
}
