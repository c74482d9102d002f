// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gpu-docker/gpu-docker"

// goPackage is what "go list" tells about one package.
type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Deps       []string
}

// folder is the first path element below the module; "" is the module itself.
func folder(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	rest, ours := strings.CutPrefix(importPath, module+"/")
	name, _, _ := strings.Cut(rest, "/")
	return name, ours
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Deps", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// TestImportsPointDownwards holds every package's dependencies against the
// layers: a folder may use itself and what its row names, nothing else of ours.
func TestImportsPointDownwards(t *testing.T) {
	allowed := map[string][]string{
		"":          {"cli", "driver", "device", "restapi", "volume", "imagemeta", "compat", "gpuhost", "orphan", "guard"},
		"cli":       {"restapi", "volume", "imagemeta", "compat", "gpuhost", "guard"},
		"driver":    {"restapi", "volume", "imagemeta", "compat", "gpuhost", "orphan", "guard"},
		"device":    {"gpuhost", "orphan", "guard"},
		"restapi":   {"volume", "gpuhost", "guard"},
		"volume":    {"gpuhost", "guard"},
		"imagemeta": {"compat"},
		"compat":    {},
		"gpuhost":   {"guard"},
		"orphan":    {},
		"guard":     {},
		"simhost":   {},
		"e2e":       {"simhost"},
	}
	for _, p := range listPackages(t) {
		from, ours := folder(p.ImportPath)
		if !ours {
			continue
		}
		row, known := allowed[from]
		if !known {
			t.Errorf("folder %q is in no layer; add it to this test and to the design", from)
			continue
		}
		for _, dep := range p.Deps {
			if to, ours := folder(dep); ours && to != from && !slices.Contains(row, to) {
				t.Errorf("%s depends on %s: %q may use only %q", p.ImportPath, dep, from, row)
			}
		}
	}
}

// TestOutsideWorldHasItsPlace: only these folders may talk to NVML's bindings
// and to the Engine API.
func TestOutsideWorldHasItsPlace(t *testing.T) {
	places := map[string][]string{
		"github.com/NVIDIA/go-nvml":          {"gpuhost"},
		"github.com/ebitengine/purego":       {"gpuhost"},
		"github.com/docker/docker/client":    {"driver", "imagemeta", "cli", "e2e"},
		"github.com/hashicorp/nomad/plugins": {"", "driver", "device"},
	}
	for _, p := range listPackages(t) {
		from, ours := folder(p.ImportPath)
		if !ours {
			continue
		}
		for _, imported := range directImports(t, p) {
			for path, folders := range places {
				if (imported == path || strings.HasPrefix(imported, path+"/")) && !slices.Contains(folders, from) {
					t.Errorf("%s imports %s, which belongs to %q only", p.ImportPath, imported, folders)
				}
			}
		}
	}
}

// directImports are the imports of a package's non-test files.
func directImports(t *testing.T, p goPackage) []string {
	t.Helper()
	var paths []string
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			paths = append(paths, strings.Trim(spec.Path.Value, "`\""))
		}
	}
	return paths
}

// TestGoroutinesAreGuarded: in the packages that a plugin lives in, each goroutine
// keeps a panic of its own from ending the process (task-driver PL-15): it defers one
// of package guard's functions or the driver's own, or does nothing but call a function
// that does.
func TestGoroutinesAreGuarded(t *testing.T) {
	found := 0
	for _, p := range listPackages(t) {
		if from, ours := folder(p.ImportPath); !ours || from != "gpuhost" && from != "restapi" && from != "driver" && from != "device" {
			continue
		}
		files, functions := token.NewFileSet(), map[string][]*ast.BlockStmt{}
		var begun []ast.Expr
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(files, filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					functions[n.Name.Name] = append(functions[n.Name.Name], n.Body)
				case *ast.GoStmt:
					begun = append(begun, n.Call.Fun)
				case *ast.CallExpr: // of a sync.WaitGroup
					if nameOf(n.Fun) == "Go" && len(n.Args) == 1 {
						begun = append(begun, n.Args[0])
					}
				}
				return true
			})
		}
		for _, b := range begun {
			found++
			if !guarded(b, functions) {
				t.Errorf("%s: a panic in this goroutine ends the process; defer guard.Log or guard.Catch in it", files.Position(b.Pos()))
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d goroutines found: the test looks in the wrong place", found)
	}
}

// guarded says whether a function defers a guard, or consists of one call of one that
// does. Functions are the package's, by name; of several of one name all must.
func guarded(f ast.Expr, functions map[string][]*ast.BlockStmt) bool {
	bodies := functions[nameOf(f)]
	if literal, ok := f.(*ast.FuncLit); ok {
		bodies = []*ast.BlockStmt{literal.Body}
	}
	return len(bodies) > 0 && !slices.ContainsFunc(bodies, func(body *ast.BlockStmt) bool { return !guardedBody(body, functions) })
}

func guardedBody(body *ast.BlockStmt, functions map[string][]*ast.BlockStmt) bool {
	for _, s := range body.List {
		if d, ok := s.(*ast.DeferStmt); ok {
			if of, ok := d.Call.Fun.(*ast.SelectorExpr); ok && (nameOf(of.X) == "guard" || of.Sel.Name == "guard") {
				return true
			}
		}
	}
	if len(body.List) != 1 {
		return false
	}
	all := true
	ast.Inspect(body.List[0], func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			all = all && guarded(call.Fun, functions)
		}
		return true
	})
	return all
}

// nameOf is the last name of an expression like a.b.c; empty for others.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// TestEveryPackageHasADoc: exactly one file of each package carries its doc,
// and the licence header is not taken for it.
func TestEveryPackageHasADoc(t *testing.T) {
	for _, p := range listPackages(t) {
		if _, ours := folder(p.ImportPath); !ours {
			continue
		}
		var docs []string
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc == nil {
				continue
			}
			docs = append(docs, name)
			if text := file.Doc.Text(); strings.Contains(text, "Copyright") || !strings.HasPrefix(text, "Package ") && !strings.HasPrefix(text, "Command ") {
				t.Errorf("%s/%s: the package doc must start with \"Package\" or \"Command\", got %q", p.ImportPath, name, text)
			}
		}
		if len(docs) != 1 {
			t.Errorf("%s: want one file with the package doc, got %q", p.ImportPath, docs)
		}
	}
}

// TestLicenceHeaders: every source file of ours says its licence.
func TestLicenceHeaders(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "*.go", "*.c", "*.h").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		head := string(text[:min(len(text), 300)])
		if !strings.Contains(head, "SPDX-License-Identifier: MPL-2.0") {
			t.Errorf("%s has no licence header", name)
		}
	}
}

// TestEveryFuzzerIsRun: "make fuzz" names every fuzz test there is.
func TestEveryFuzzerIsRun(t *testing.T) {
	makefile, err := os.ReadFile("GNUmakefile")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "grep", "-o", "^func Fuzz[A-Za-z0-9]*", "--", "*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		file, name, _ := strings.Cut(strings.TrimSpace(line), ":func ")
		if want := filepath.Dir(file) + ":" + name; !strings.Contains(string(makefile), want+" ") && !strings.Contains(string(makefile), want+"\n") {
			t.Errorf("FUZZERS in the makefile lacks %s", want)
		}
	}
}
