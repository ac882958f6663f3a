package repocheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/engined/engined"

// tree is everything that the rules look at.
type tree struct {
	root  fs.FS
	fset  *token.FileSet
	files []*file
	docs  []doc
}

// file is one Go file.
type file struct {
	// path and dir are relative to the module's root, with slashes; the dir of
	// the root is ".".
	path, dir string
	test      bool
	generated bool
	lines     int
	ast       *ast.File
}

// doc is one Markdown file.
type doc struct{ path, text string }

// finding is one place where a rule is broken.
type finding struct {
	// where is what an exception names: a package, a file, or file.go:Func.
	where string
	// line is 0 where a finding has none.
	line int
	// size is what was measured, by rules that measure.
	size int
	what string
}

var generatedLine = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// load parses every Go file of the module. Modules of their own inside it, test
// data and hidden folders are not the module's.
func load(t *testing.T, root fs.FS) *tree {
	t.Helper()
	r := &tree{root: root, fset: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(root, name)
		}
		data := func() ([]byte, error) { return fs.ReadFile(root, name) }
		switch path.Ext(name) {
		case ".go":
			src, err := data()
			if err != nil {
				return err
			}
			return r.parse(name, src)
		case ".md":
			text, err := data()
			r.docs = append(r.docs, doc{name, string(text)})
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func skip(root fs.FS, dir string) error {
	base := path.Base(dir)
	if dir == "." {
		return nil
	}
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := fs.Stat(root, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func (r *tree) parse(name string, src []byte) error {
	f, err := parser.ParseFile(r.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	r.files = append(r.files, &file{
		path: name, dir: path.Dir(name), ast: f,
		test:      strings.HasSuffix(name, "_test.go"),
		generated: generatedLine.Match(src),
		lines:     strings.Count(string(src), "\n"),
	})
	return nil
}

// written are the files that people wrote.
func (r *tree) written() []*file {
	return slices.DeleteFunc(slices.Clone(r.files), func(f *file) bool { return f.generated })
}

// shipped are the files that people wrote and that are no tests.
func (r *tree) shipped() []*file {
	return slices.DeleteFunc(r.written(), func(f *file) bool { return f.test })
}

func (r *tree) line(n ast.Node) int { return r.fset.Position(n.Pos()).Line }

// funcName is how an exception names a function: file.go:Func or
// file.go:Type.Method.
func funcName(f *file, d *ast.FuncDecl) string {
	name := d.Name.Name
	if d.Recv != nil && len(d.Recv.List) > 0 {
		name = receiver(d) + "." + name
	}
	return f.path + ":" + name
}

func receiver(d *ast.FuncDecl) string {
	for e := d.Recv.List[0].Type; ; {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return "?"
		}
	}
}

// functions calls do for every function declared in f.
func functions(f *file, do func(*ast.FuncDecl)) {
	for _, d := range f.ast.Decls {
		if fd, ok := d.(*ast.FuncDecl); ok {
			do(fd)
		}
	}
}

// within calls do for every node of f, with the name of the declared function
// around it, or of the file.
func within(f *file, do func(where string, n ast.Node)) {
	for _, d := range f.ast.Decls {
		where := f.path
		if fd, ok := d.(*ast.FuncDecl); ok {
			where = funcName(f, fd)
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if n != nil {
				do(where, n)
			}
			return true
		})
	}
}

// imported returns the name under which f uses the package, or "".
func imported(f *file, pkg string) string {
	for _, s := range f.ast.Imports {
		if importPath(s) != pkg {
			continue
		}
		if s.Name != nil {
			return s.Name.Name
		}
		base := path.Base(pkg)
		if strings.HasPrefix(base, "v") && strings.Trim(base[1:], "0123456789") == "" {
			base = path.Base(path.Dir(pkg))
		}
		return base
	}
	return ""
}

func importPath(s *ast.ImportSpec) string {
	p, err := strconv.Unquote(s.Path.Value)
	if err != nil {
		return s.Path.Value
	}
	return p
}

// selected returns the name chosen from pkg in n ("Now" of time.Now), or "".
func selected(f *file, n ast.Node, pkg string) string {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok || x.Name == "" || x.Name != imported(f, pkg) {
		return ""
	}
	return s.Sel.Name
}
