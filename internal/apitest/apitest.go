// Package apitest checks that the exported functions and methods of a package survive
// nil and zero values.
package apitest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// ErrHarmless is what a call returns if the function has no error to return and did
// not panic.
var ErrHarmless = errors.New("no error to return")

// NilSafe runs a call of each exported function of the package in a folder. The key of
// a call is "Func", or "Type.Method" for a method of an exported type. The call passes
// nil or zero values. It must return an error, and must not panic. The test also fails
// if calls lacks a function, or has one that does not exist.
func NilSafe(t *testing.T, folder string, calls map[string]func() error) {
	t.Helper()
	names, err := Functions(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if calls[name] == nil {
			t.Errorf("no call of %s", name)
		}
	}
	for name, call := range calls {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not an exported function", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			if problem := run(call); problem != nil {
				t.Error(problem)
			}
		})
	}
}

// run returns an error if a call panics or returns no error.
func run(call func() error) (problem error) {
	defer func() {
		if p := recover(); p != nil {
			stack := make([]byte, 4<<10)
			problem = fmt.Errorf("panic: %v\n%s", p, stack[:runtime.Stack(stack, false)])
		}
	}()
	if call() == nil {
		return errors.New("got no error")
	}
	return nil
}

// Harmless calls f and returns ErrHarmless. It is a call of a function without an
// error.
func Harmless(f func()) error {
	f()
	return ErrHarmless
}

// Panics calls a function that is documented to panic, with an error that wraps
// sentinel. It returns that error, or nil if f does not panic with it.
func Panics(f func(), sentinel error) (err error) {
	defer func() {
		if p, ok := recover().(error); ok && errors.Is(p, sentinel) {
			err = p
		}
	}()
	f()
	return nil
}

// Functions returns the names of the exported functions and methods that the Go files
// of a folder define under any build constraint: sorted, without test files.
func Functions(folder string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("apitest.Functions: %w", err)
	}
	var names []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("apitest.Functions: %w", err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.IsExported() {
				names = append(names, nameOf(f))
			}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !ast.IsExported(name) })
	slices.Sort(names)
	return slices.Compact(names), nil
}

// nameOf returns the name of a function, or of a method after that of its type.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	for {
		switch x := receiver.(type) {
		case *ast.StarExpr:
			receiver = x.X
		case *ast.IndexExpr:
			receiver = x.X
		case *ast.IndexListExpr:
			receiver = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}
