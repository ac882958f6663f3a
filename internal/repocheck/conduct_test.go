package repocheck

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// pure packages have no clock, no randomness of their own and no I/O.
var pure = []string{"history", "engine/machine", "engine/match", "internal/replay"}

// ordered packages have no map order either: the same input gives the same
// output, byte for byte.
var ordered = []string{"engine/machine", "engine/match"}

// testSupport packages are for tests, though no tests themselves.
var testSupport = []string{"engine/store/storetest", "sdk/sdktest"}

var (
	impureImports = []string{"os", "os/exec", "net", "net/http", "database/sql", "crypto/rand", "syscall"}
	clockCalls    = []string{"Now", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Since", "Until"}
	randomKinds   = []string{"Rand", "Source", "PCG", "ChaCha8", "Zipf"}
)

func checkPurity(r *tree) []finding {
	var found []finding
	for _, f := range r.shipped() {
		if !slices.Contains(pure, f.dir) {
			continue
		}
		for _, s := range f.ast.Imports {
			if p := importPath(s); slices.Contains(impureImports, p) {
				found = append(found, finding{where: f.path, line: r.line(s), what: "a pure package imports " + p})
			}
		}
		within(f, func(where string, n ast.Node) {
			if name := selected(f, n, "time"); slices.Contains(clockCalls, name) {
				found = append(found, finding{where: where, line: r.line(n), what: "a pure package calls time." + name})
			}
			for _, p := range []string{"math/rand", "math/rand/v2"} {
				// A generator with a seed that came in is pure.
				name := selected(f, n, p)
				if name != "" && !strings.HasPrefix(name, "New") && !slices.Contains(randomKinds, name) {
					found = append(found, finding{where: where, line: r.line(n), what: "a pure package calls rand." + name})
				}
			}
		})
	}
	return found
}

func checkGo(r *tree) []finding {
	var found []finding
	for _, f := range r.shipped() {
		if f.dir == "internal/svc" {
			continue
		}
		within(f, func(where string, n ast.Node) {
			if _, ok := n.(*ast.GoStmt); ok {
				found = append(found, finding{where: where, line: r.line(n), what: "a goroutine begins"})
			}
		})
	}
	return found
}

func checkSleep(r *tree) []finding {
	var found []finding
	for _, f := range r.written() {
		if !f.test && !slices.Contains(testSupport, f.dir) {
			continue
		}
		within(f, func(where string, n ast.Node) {
			if selected(f, n, "time") == "Sleep" {
				found = append(found, finding{where: where, line: r.line(n), what: "a test sleeps"})
			}
		})
	}
	return found
}

func checkBackground(r *tree) []finding {
	var found []finding
	for _, f := range r.shipped() {
		// A program has no caller.
		if slices.Contains(testSupport, f.dir) || f.ast.Name.Name == "main" || strings.HasPrefix(f.dir, "cmd/") || strings.HasPrefix(f.dir, examples) || strings.HasPrefix(f.dir, benches) {
			continue
		}
		within(f, func(where string, n ast.Node) {
			if name := selected(f, n, "context"); name == "Background" || name == "TODO" {
				found = append(found, finding{where: where, line: r.line(n), what: "context." + name + " cuts the caller off"})
			}
		})
	}
	return found
}

func checkTesting(r *tree) []finding {
	var found []finding
	for _, f := range r.shipped() {
		if !slices.Contains(testSupport, f.dir) && imported(f, "testing") != "" {
			found = append(found, finding{where: f.path, what: "what ships imports testing"})
		}
	}
	return found
}

// checkErrorText finds decisions that rest on what an error says. Tests may
// look at the text: it is what people read.
func checkErrorText(r *tree) []finding {
	var found []finding
	for _, f := range r.shipped() {
		within(f, func(where string, n ast.Node) {
			if readsErrorText(f, n) {
				found = append(found, finding{where: where, line: r.line(n), what: "it decides by the text of an error"})
			}
		})
	}
	return found
}

func readsErrorText(f *file, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		for _, pkg := range []string{"strings", "regexp", "bytes"} {
			if selected(f, n.Fun, pkg) != "" {
				return slices.ContainsFunc(n.Args, containsErrorCall)
			}
		}
	case *ast.BinaryExpr:
		return (n.Op == token.EQL || n.Op == token.NEQ) && (isErrorCall(n.X) || isErrorCall(n.Y))
	case *ast.SwitchStmt:
		return n.Tag != nil && isErrorCall(n.Tag)
	}
	return false
}

func containsErrorCall(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if x, ok := n.(ast.Expr); ok && isErrorCall(x) {
			found = true
		}
		return !found
	})
	return found
}

func isErrorCall(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok || len(c.Args) != 0 {
		return false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Error"
}

func checkMapOrder(r *tree) []finding {
	var found []finding
	for _, dir := range ordered {
		info := r.types(dir)
		for _, f := range r.shipped() {
			if f.dir != dir {
				continue
			}
			sorted := sortedCalls(f)
			within(f, func(where string, n ast.Node) {
				if loop, ok := n.(*ast.RangeStmt); ok && isMap(info, loop.X) {
					found = append(found, finding{where: where, line: r.line(n), what: "it ranges over a map"})
				}
				call, ok := n.(*ast.CallExpr)
				if !ok || sorted[call] {
					return
				}
				if name := selected(f, call.Fun, "maps"); name == "Keys" || name == "Values" || name == "All" {
					found = append(found, finding{where: where, line: r.line(n), what: fmt.Sprintf("maps.%s is not sorted at once", name)})
				}
			})
		}
	}
	return found
}

// sortedCalls are the calls that stand inside slices.Sorted and its kin.
func sortedCalls(f *file) map[*ast.CallExpr]bool {
	sorted := map[*ast.CallExpr]bool{}
	within(f, func(_ string, n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || !strings.HasPrefix(selected(f, call.Fun, "slices"), "Sorted") {
			return
		}
		for _, a := range call.Args {
			if inner, ok := a.(*ast.CallExpr); ok {
				sorted[inner] = true
			}
		}
	})
	return sorted
}
