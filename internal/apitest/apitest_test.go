package apitest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFunctionsAreExportedFunctionsAndMethods(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.go"), []byte(`package a
type T struct{}
type G[K, V any] struct{}
type hidden int
func F() {}
func g() {}
func Generic[T any]() {}
func (T) Value() {}
func (*T) Pointer() {}
func (t *T) hide() {}
func (*G[K, V]) Of() {}
func (hidden) Exported() {}
`), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a_windows.go"), []byte("package a\nfunc Windows() {}\n"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a_test.go"), []byte("package a\nfunc TestF() {}\n"), 0o666))
	names, err := Functions(folder)
	require.NoError(t, err)
	assert.Equal(t, []string{"F", "G.Of", "Generic", "T.Pointer", "T.Value", "Windows"}, names)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "b.go"), []byte("package"), 0o666))
	_, err = Functions(folder)
	assert.Error(t, err)
}

func TestCallsMustReturnErrors(t *testing.T) {
	mine := errors.New("mine")
	assert.NoError(t, run(func() error { return mine }))
	assert.NoError(t, run(func() error { return Harmless(func() {}) }))
	assert.ErrorContains(t, run(func() error { return nil }), "got no error")
	assert.ErrorContains(t, run(func() error { panic("lost") }), "panic: lost")
	assert.ErrorContains(t, run(func() error { return Harmless(func() { panic(mine) }) }), "panic: mine")
	assert.NoError(t, run(func() error { return Panics(func() { panic(mine) }, mine) }))
	assert.Error(t, run(func() error { return Panics(func() {}, mine) }))
	assert.Error(t, run(func() error { return Panics(func() { var none *int; *none = 1 }, mine) }))
}

// Each argument is nil alone, too: a check of the first one hides that of the second.
func TestEachNilArgumentIsFound(t *testing.T) {
	mine := errors.New("mine")
	z := Zeros{Args: []any{new(bytes.Buffer), new(int)}, Panics: mine, Optional: []string{"Optional"}}
	problems := func(name string, f any) []string { return z.problems(t.Context(), name, reflect.ValueOf(f)) }
	checked := func(w io.Writer, n *int) error {
		if w == nil || n == nil {
			return mine
		}
		return nil
	}
	assert.Empty(t, problems("F", checked))
	second := problems("F", func(w io.Writer, n *int) error {
		if w == nil {
			return mine
		}
		*n = 1
		return nil
	})
	require.Len(t, second, 1)
	assert.Contains(t, second[0], "nil *int, argument 1: panic: ")
	ignored := func(io.Writer) error { return nil }
	assert.Equal(t, []string{"nil io.Writer, argument 0: no error"}, problems("F", ignored))
	assert.Empty(t, problems("Optional", ignored))
	listed := problems("F", func(all ...*int) error {
		for _, n := range all {
			*n = 1
		}
		return nil
	})
	require.Len(t, listed, 1)
	assert.Contains(t, listed[0], "nil []*int, argument 0: panic: ")
	assert.Empty(t, problems("F", func(*int) { panic(mine) }))
	assert.Len(t, problems("F", func(*int) { panic("lost") }), 2)
}
