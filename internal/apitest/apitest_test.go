package apitest

import (
	"errors"
	"os"
	"path/filepath"
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
