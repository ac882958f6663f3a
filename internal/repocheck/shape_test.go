package repocheck

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// The budgets come from the distributions in well-kept Go projects.
const (
	maxFunctionLines = 70
	maxFileLines     = 600
	maxTestFileLines = 1000
	maxPackageFiles  = 25
	maxMethods       = 7
	maxParameters    = 5
)

func checkFunctionLength(r *tree) []finding {
	var found []finding
	for _, f := range r.written() {
		functions(f, func(d *ast.FuncDecl) {
			n := r.fset.Position(d.End()).Line - r.line(d) + 1
			if n > maxFunctionLines {
				found = append(found, finding{funcName(f, d), r.line(d), n,
					fmt.Sprintf("%d lines, the limit is %d", n, maxFunctionLines)})
			}
		})
	}
	return found
}

func checkFileLength(r *tree) []finding {
	var found []finding
	for _, f := range r.written() {
		limit := maxFileLines
		if f.test {
			limit = maxTestFileLines
		}
		if f.lines > limit {
			found = append(found, finding{f.path, 0, f.lines, fmt.Sprintf("%d lines, the limit is %d", f.lines, limit)})
		}
	}
	return found
}

func checkPackageFiles(r *tree) []finding {
	n := map[string]int{}
	for _, f := range r.shipped() {
		n[f.dir]++
	}
	var found []finding
	for dir, n := range n {
		if n > maxPackageFiles {
			found = append(found, finding{dir, 0, n, fmt.Sprintf("%d files, the limit is %d", n, maxPackageFiles)})
		}
	}
	return found
}

func checkInterfaces(r *tree) []finding {
	var found []finding
	for _, f := range r.written() {
		within(f, func(_ string, n ast.Node) {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return
			}
			it, ok := spec.Type.(*ast.InterfaceType)
			if !ok {
				return
			}
			methods := 0
			for _, m := range it.Methods.List {
				methods += len(m.Names)
			}
			if methods > maxMethods {
				found = append(found, finding{f.path + ":" + spec.Name.Name, r.line(spec), methods,
					fmt.Sprintf("%d methods, the limit is %d", methods, maxMethods)})
			}
		})
	}
	return found
}

func checkParameters(r *tree) []finding {
	var found []finding
	for _, f := range r.written() {
		functions(f, func(d *ast.FuncDecl) {
			if n := parameters(d.Type); n > maxParameters {
				found = append(found, finding{funcName(f, d), r.line(d), n,
					fmt.Sprintf("%d parameters besides the context, the limit is %d", n, maxParameters)})
			}
		})
	}
	return found
}

func parameters(t *ast.FuncType) int {
	n := 0
	for _, p := range t.Params.List {
		if s, ok := p.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
			continue
		}
		n += max(1, len(p.Names))
	}
	return n
}

func checkPackageComments(r *tree) []finding {
	with := map[string][]string{}
	dirs := map[string]bool{}
	for _, f := range r.shipped() {
		dirs[f.dir] = true
		if f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != "" {
			with[f.dir] = append(with[f.dir], f.path)
		}
	}
	var found []finding
	for dir := range dirs {
		if len(with[dir]) != 1 {
			slices.Sort(with[dir])
			found = append(found, finding{where: dir, what: fmt.Sprintf("%d package comments %v, there must be one", len(with[dir]), with[dir])})
		}
	}
	return found
}

// selfExplaining methods are documented by the interfaces they fulfil.
var selfExplaining = []string{"Error", "Unwrap", "Is", "As", "String", "Len", "Less", "Swap", "LogValue", "MarshalJSON", "UnmarshalJSON"}

func checkExportedDocs(r *tree) []finding {
	var found []finding
	for _, f := range r.shipped() {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if undocumented(d) {
					found = append(found, finding{where: funcName(f, d), line: r.line(d), what: "it is exported and has no comment"})
				}
			case *ast.GenDecl:
				for _, name := range undocumentedNames(d) {
					found = append(found, finding{where: f.path + ":" + name.Name, line: r.line(name), what: "it is exported and has no comment"})
				}
			}
		}
	}
	return found
}

func undocumented(d *ast.FuncDecl) bool {
	if d.Doc.Text() != "" || !d.Name.IsExported() {
		return false
	}
	if d.Recv == nil {
		return true
	}
	return ast.IsExported(receiver(d)) && !slices.Contains(selfExplaining, d.Name.Name)
}

// undocumentedNames are the exported names without a comment: their own, one
// at the end of the line, or one of the group they stand in.
func undocumentedNames(d *ast.GenDecl) []*ast.Ident {
	if d.Doc.Text() != "" {
		return nil
	}
	var all []*ast.Ident
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc.Text() == "" && s.Comment.Text() == "" {
				all = append(all, s.Name)
			}
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if n.IsExported() && s.Doc.Text() == "" && s.Comment.Text() == "" {
					all = append(all, n)
				}
			}
		}
	}
	return all
}
