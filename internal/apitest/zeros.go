package apitest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Zeros is a test that calls every exported function and method of a package with zero
// arguments: nil pointers, nil interfaces, nil functions, 0. A context is
// context.Background. No call may panic.
type Zeros struct {
	// Functions are the exported functions by name. A nil one is not called: it has no
	// argument that can be nil, or needs one.
	Functions map[string]any
	// Values are a live value of each type with exported methods, or nil where programs
	// cannot make one.
	Values map[string]any
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
			t.Run(name, func(t *testing.T) { z.call(t, f) })
		}
	}
}

func (z Zeros) call(t *testing.T, f reflect.Value) {
	t.Helper()
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		switch in := f.Type().In(i); {
		case f.Type().IsVariadic() && i == f.Type().NumIn()-1:
		case in == reflect.TypeFor[context.Context]():
			args = append(args, reflect.ValueOf(t.Context()))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); !ok || z.Panics == nil || !errors.Is(err, z.Panics) {
			t.Errorf("panic: %v", p)
		}
	}()
	for _, result := range f.Call(args) {
		release(result)
	}
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
