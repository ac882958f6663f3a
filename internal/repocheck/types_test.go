package repocheck

import (
	"go/ast"
	"go/types"
	"path"
	"strings"
)

// types checks the types of one of our packages as far as our own sources tell
// them. Packages from outside are taken as empty, and what follows from that
// as unknown: a map of ours is still known to be one, also where it is a field
// of a protobuf message.
func (r *tree) types(dir string) *types.Info {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	imp := &importer{tree: r, done: map[string]*types.Package{}}
	imp.check(dir, info)
	return info
}

type importer struct {
	tree *tree
	done map[string]*types.Package
}

// Import fulfils types.Importer.
func (i *importer) Import(p string) (*types.Package, error) {
	if p == "unsafe" {
		return types.Unsafe, nil
	}
	if pkg := i.done[p]; pkg != nil {
		return pkg, nil
	}
	if dir, ok := strings.CutPrefix(p, module+"/"); ok {
		return i.check(dir, nil), nil
	}
	pkg := types.NewPackage(p, path.Base(p))
	pkg.MarkComplete()
	i.done[p] = pkg
	return pkg, nil
}

func (i *importer) check(dir string, info *types.Info) *types.Package {
	var files []*ast.File
	for _, f := range i.tree.files {
		if f.dir == dir && !f.test {
			files = append(files, f.ast)
		}
	}
	conf := types.Config{
		Importer: i,
		// Of what is only imported the declarations are enough.
		IgnoreFuncBodies: info == nil,
		// What is unknown is no error here: the compiler checks that.
		Error: func(error) {},
	}
	pkg, _ := conf.Check(module+"/"+dir, i.tree.fset, files, info)
	i.done[module+"/"+dir] = pkg
	return pkg
}

func isMap(info *types.Info, e ast.Expr) bool {
	t := info.TypeOf(e)
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}
