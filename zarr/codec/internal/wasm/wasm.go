// Package wasm runs codecs that are compiled to WebAssembly. Their memory is their own:
// a corrupt chunk can end one call, and nothing else.
package wasm

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// MaxBytes is the most bytes that one call may take or return.
const MaxBytes = 1 << 30

const (
	maxPages  = 1 << 16  // of 64 KiB: the memory of 32-bit WebAssembly
	keptBytes = 64 << 20 // an instance with more memory is not used again
)

// Module is a compiled module without imports. It exports allocate(n) and release(at,
// n) beside the functions of its codec. A Module is safe for concurrent use.
type Module struct {
	compressed []byte // by gzip
	compile    func() (compiled, error)

	mu   sync.Mutex
	idle []*Instance
}

type compiled struct {
	runtime wazero.Runtime
	code    wazero.CompiledModule
}

// New returns a module, which the first call of Run compiles.
func New(compressed []byte) *Module {
	m := &Module{compressed: compressed}
	m.compile = sync.OnceValues(m.newCompiled)
	return m
}

func (m *Module) newCompiled() (c compiled, err error) {
	r, err := gzip.NewReader(bytes.NewReader(m.compressed))
	if err != nil {
		return c, err
	}
	code, err := io.ReadAll(r)
	if err != nil {
		return c, err
	}
	ctx := context.Background()
	c.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(maxPages))
	c.code, err = c.runtime.CompileModule(ctx, code)
	return c, err
}

// Run calls f with an instance of the module, which no other call uses meanwhile.
func (m *Module) Run(f func(*Instance) error) error {
	i, err := m.instance()
	if err != nil {
		return fmt.Errorf("starting WebAssembly: %w", err)
	}
	err = f(i)
	m.put(i)
	return err
}

func (m *Module) instance() (*Instance, error) {
	m.mu.Lock()
	if n := len(m.idle); n > 0 {
		i := m.idle[n-1]
		m.idle = m.idle[:n-1]
		m.mu.Unlock()
		return i, nil
	}
	m.mu.Unlock()
	c, err := m.compile()
	if err != nil {
		return nil, err
	}
	module, err := c.runtime.InstantiateModule(context.Background(), c.code, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return nil, err
	}
	return &Instance{module: module}, nil
}

// put keeps an instance for later calls, or closes it after a trap or with much memory.
func (m *Module) put(i *Instance) {
	if !i.trapped && i.module.Memory().Size() <= keptBytes {
		m.mu.Lock()
		kept := len(m.idle) < runtime.GOMAXPROCS(0)
		if kept {
			m.idle = append(m.idle, i)
		}
		m.mu.Unlock()
		if kept {
			return
		}
	}
	_ = i.module.Close(context.Background()) // frees memory only
}

// Instance is a running module with memory of its own.
type Instance struct {
	module  api.Module
	trapped bool
}

// Call calls an exported function. After an error the instance is not used again.
func (i *Instance) Call(name string, arguments ...uint64) (uint64, error) {
	f := i.module.ExportedFunction(name)
	if f == nil {
		i.trapped = true
		return 0, fmt.Errorf("the module has no function %q", name)
	}
	results, err := f.Call(context.Background(), arguments...)
	if err != nil {
		i.trapped = true
		return 0, err
	}
	if len(results) == 0 {
		return 0, nil
	}
	return results[0], nil
}

// Allocate returns the address of n bytes in the instance's memory.
func (i *Instance) Allocate(n int64) (uint64, error) {
	if n < 0 || n > MaxBytes {
		return 0, fmt.Errorf("memory: got %d bytes, want at most %d", n, MaxBytes)
	}
	at, err := i.Call("allocate", uint64(n))
	if err == nil && uint32(at) == 0 {
		i.trapped = true
		err = fmt.Errorf("no memory for %d bytes", n)
	}
	return uint64(uint32(at)), err
}

// Copy allocates memory and copies b there.
func (i *Instance) Copy(b []byte) (uint64, error) {
	at, err := i.Allocate(int64(len(b)))
	if err == nil && !i.module.Memory().Write(uint32(at), b) {
		i.trapped = true
		err = fmt.Errorf("%d bytes at %d exceed the memory", len(b), at)
	}
	return at, err
}

// View returns n bytes of the memory, which are valid until the next call.
func (i *Instance) View(at uint64, n int64) ([]byte, error) {
	if n < 0 || n > MaxBytes || at > 1<<32-1 {
		return nil, fmt.Errorf("result: got %d bytes at %d", n, at)
	}
	b, ok := i.module.Memory().Read(uint32(at), uint32(n))
	if !ok {
		return nil, fmt.Errorf("%d bytes at %d exceed the memory", n, at)
	}
	return b, nil
}

// Release frees n bytes of Allocate or of a result.
func (i *Instance) Release(at uint64, n int64) {
	if !i.trapped {
		_, _ = i.Call("release", at, uint64(n)) // a trap marks the instance
	}
}
