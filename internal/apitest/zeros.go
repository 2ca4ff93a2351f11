package apitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Zeros is a test that calls every exported function and method of a package with zero
// arguments: nil pointers, nil interfaces, nil functions, 0. A context is that of the
// test. No call may panic. Where a function takes several pointers, interfaces and
// functions, each of them is also nil alone, beside live values of the others, and the
// function must return an error then if it returns errors at all.
type Zeros struct {
	// Functions are the exported functions by name. A nil one is not called: it has no
	// argument that can be nil, or needs one.
	Functions map[string]any
	// Values are a live value of each type with exported methods, or nil where programs
	// cannot make one.
	Values map[string]any
	// Args are live arguments beside Values, such as a device or a schema. The first one
	// that fits is passed.
	Args []any
	// Optional lists the functions for which nil is a valid argument, as "Func" or
	// "Type.Method".
	Optional []string
	// Skip lists the methods that are not called, such as Release and Close, which would
	// end the value.
	Skip []string
	// Panics is the error with which functions without an error may panic, such as
	// Release.
	Panics error
}

// Run runs the test for the package in a folder. It fails if z lacks a function or a
// type.
func (z Zeros) Run(t *testing.T, folder string) {
	t.Helper()
	names, err := Functions(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		kind, method, isMethod := strings.Cut(name, ".")
		var f reflect.Value
		if isMethod {
			value, ok := z.Values[kind]
			if !ok {
				t.Errorf("no value of %s", kind)
			}
			if value == nil || slices.Contains(z.Skip, method) {
				continue
			}
			f = reflect.ValueOf(value).MethodByName(method)
		} else {
			function, ok := z.Functions[name]
			if !ok {
				t.Errorf("no call of %s", name)
			}
			f = reflect.ValueOf(function)
		}
		if f.IsValid() { // this build may lack it
			t.Run(name, func(t *testing.T) {
				for _, problem := range z.problems(t.Context(), name, f) {
					t.Error(problem)
				}
			})
		}
	}
}

// problems calls a function with all arguments zero, and with each of them nil alone. It
// returns what is wrong with the outcomes.
func (z Zeros) problems(ctx context.Context, name string, f reflect.Value) (problems []string) {
	zeros := make([]reflect.Value, 0, f.Type().NumIn())
	for i := range f.Type().NumIn() {
		switch in := f.Type().In(i); {
		case f.Type().IsVariadic() && i == f.Type().NumIn()-1:
		case in == contextType:
			zeros = append(zeros, reflect.ValueOf(ctx))
		default:
			zeros = append(zeros, reflect.Zero(in))
		}
	}
	if outcome := z.run(f, zeros); outcome.panicked != "" {
		problems = append(problems, "zero arguments: "+outcome.panicked)
	}
	for i := range f.Type().NumIn() {
		in := f.Type().In(i)
		bad := reflect.Zero(in)
		switch {
		case in == contextType:
			continue
		case in.Kind() == reflect.Slice && canBeNil(in.Elem()):
			bad = reflect.MakeSlice(in, 1, 1)
		case !canBeNil(in):
			continue
		}
		about := fmt.Sprintf("nil %v, argument %d", in, i)
		outcome := z.run(f, z.others(ctx, f.Type(), i, bad))
		if outcome.panicked != "" {
			problems = append(problems, about+": "+outcome.panicked)
		} else if outcome.noError && !slices.Contains(z.Optional, name) {
			problems = append(problems, about+": no error")
		}
	}
	return problems
}

var contextType = reflect.TypeFor[context.Context]()

// canBeNil reports whether a caller may pass nil by mistake where a type is wanted.
func canBeNil(t reflect.Type) bool {
	return slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Interface, reflect.Func}, t.Kind())
}

// others returns live arguments of a function, and a bad one at position i.
func (z Zeros) others(ctx context.Context, f reflect.Type, i int, bad reflect.Value) []reflect.Value {
	var args []reflect.Value
	for j := range f.NumIn() {
		in := f.In(j)
		switch variadic := f.IsVariadic() && j == f.NumIn()-1; {
		case i == j && variadic:
			for k := range bad.Len() {
				args = append(args, bad.Index(k))
			}
		case i == j:
			args = append(args, bad)
		case variadic:
		case in == contextType:
			args = append(args, reflect.ValueOf(ctx))
		default:
			args = append(args, z.live(in))
		}
	}
	return args
}

// live returns a live value of a type, or its zero value.
func (z Zeros) live(in reflect.Type) reflect.Value {
	candidates := slices.Clone(z.Args)
	for _, name := range slices.Sorted(maps.Keys(z.Values)) {
		candidates = append(candidates, z.Values[name])
	}
	for _, arg := range candidates {
		of := reflect.TypeOf(arg)
		if arg != nil && (of == in || in.Kind() == reflect.Interface && in.NumMethod() > 0 && of.Implements(in)) {
			return reflect.ValueOf(arg)
		}
	}
	return reflect.Zero(in)
}

// outcome is what a call has led to.
type outcome struct {
	panicked string // the panic and its stack, if it is not z.Panics
	noError  bool   // the function returns an error, which is nil
}

// run calls a function, and releases its results.
func (z Zeros) run(f reflect.Value, args []reflect.Value) (o outcome) {
	defer func() {
		p := recover()
		if err, ok := p.(error); p != nil && !(ok && z.Panics != nil && errors.Is(err, z.Panics)) {
			stack := make([]byte, 4<<10)
			o.panicked = fmt.Sprintf("panic: %v\n%s", p, stack[:runtime.Stack(stack, false)])
		}
	}()
	results := f.Call(args)
	for _, result := range results {
		release(result)
	}
	if last := len(results) - 1; last >= 0 && f.Type().Out(last) == reflect.TypeFor[error]() {
		o.noError = results[last].IsNil()
	}
	return o
}

// release releases or closes what a call has made.
func release(result reflect.Value) {
	switch result.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Func:
		if result.IsNil() {
			return
		}
	}
	switch made := result.Interface().(type) {
	case interface{ Release() }:
		made.Release()
	case interface{ Close() error }:
		_ = made.Close() // tests of Close are elsewhere
	case func():
		made()
	}
}
