package arrowbuf

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/apache/arrow-go/v18/arrow"
)

// CheckHost returns an error wrapping ErrDeviceMemory if the host cannot access all
// memory of a batch. The error names the first such column, its type and its device.
// It reads no column. Call it before code that CatchHostAccess cannot protect, such
// as package compute of arrow-go.
func CheckHost(batch arrow.RecordBatch) error {
	if isNil(batch) {
		return fmt.Errorf("arrowbuf.CheckHost: nil batch: %w", arrow.ErrInvalid)
	}
	if c, ok := firstOnDevice(batch); ok {
		return fmt.Errorf("arrowbuf.CheckHost: %s is in the memory of %s; call ToHost first: %w", c, c.dev, ErrDeviceMemory)
	}
	return nil
}

// CatchHostAccess calls f, which passes batch to code that may have been written for
// host memory, and returns the error of f. If f reads or writes device memory in
// place, CatchHostAccess returns an error wrapping ErrDeviceMemory. It names the
// column, its type, its device, and the buffer and byte that were accessed. Without
// CatchHostAccess, such a fault ends the program: Go does not turn it into a panic.
//
// The access is found whether f panics or recovers the panic and returns it as an
// error, as arrow-go's IPC and Parquet writers do. Memory of other batches on a
// device is named by its device. Other panics of f continue, and other errors are
// returned as they are.
//
// The error of a failure without an address quotes it, and names the first column on a
// device. These failures have none:
//   - a system call that was given device memory, such as a write to a file;
//   - code that expects arrow-go's own types of arrays, such as array.Equal;
//   - a fault that arrow-go formats as text, as array.ValidateRecord does.
//
// Go reports faults only of the goroutine that runs f (debug.SetPanicOnFault). A
// fault in a goroutine that f starts, or in C code, still ends the program:
//   - package compute of arrow-go runs every function in a goroutine of its own,
//     whatever its ExecCtx says;
//   - ipc.Writer and ipc.FileWriter compress in goroutines if
//     ipc.WithCompressConcurrency is more than 1.
//
// For these, call CheckHost or ToHost first. After an access, arrow-go may not have
// released what it had retained: the memory of the batch may stay allocated.
func CatchHostAccess(batch arrow.RecordBatch, f func() error) (err error) {
	if isNil(batch) {
		return fmt.Errorf("arrowbuf.CatchHostAccess: nil batch: %w", arrow.ErrInvalid)
	}
	if f == nil {
		return fmt.Errorf("arrowbuf.CatchHostAccess: nil function: %w", arrow.ErrInvalid)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		failure := recover()
		if failure == nil {
			return
		}
		cause, ok := failure.(error)
		if !ok {
			cause = fmt.Errorf("%v", failure)
		}
		if err = hostAccessError(batch, cause); err == nil {
			panic(failure)
		}
	}()
	if err = f(); err == nil || errors.Is(err, ErrDeviceMemory) {
		return err
	}
	if access := hostAccessError(batch, err); access != nil {
		return access
	}
	return err
}

// hostAccessError returns an error about the access to device memory that cause
// reports, or nil if it reports none.
func hostAccessError(batch arrow.RecordBatch, cause error) error {
	var fault interface {
		error
		Addr() uintptr
	}
	if errors.As(cause, &fault) {
		if where := locateDeviceMemory(batch, fault.Addr()); where != "" {
			return fmt.Errorf("arrowbuf.CatchHostAccess: the host accessed %s; call ToHost first: %w", where, ErrDeviceMemory)
		}
		return nil
	}
	// What is left names no address, so the error names the first column on a device.
	c, found := firstOnDevice(batch)
	if !found || !errors.Is(cause, syscall.EFAULT) && !expectsHostArray(cause) && !isLostFault(cause) {
		return nil
	}
	return fmt.Errorf("arrowbuf.CatchHostAccess: code for the host failed with %q, and %s is on %s; call ToHost first: %w",
		cause.Error(), c, c.dev, ErrDeviceMemory)
}

// expectsHostArray reports whether cause says that a type assertion or a switch of
// arrow-go met an *Array.
func expectsHostArray(cause error) bool { return strings.Contains(cause.Error(), "*arrowbuf.Array") }

// isLostFault reports whether cause has the text of a fault, but not the fault: some
// functions of arrow-go format a recovered panic without wrapping it.
func isLostFault(cause error) bool {
	var known runtime.Error
	return !errors.As(cause, &known) && strings.Contains(cause.Error(), "invalid memory address or nil pointer dereference")
}

// locateDeviceMemory describes the device memory that contains address, or returns
// "" if none does.
func locateDeviceMemory(batch arrow.RecordBatch, address uintptr) string {
	var where string
	walkDeviceBuffers(batch, func(c columnBuffer) bool {
		if offset, ok := offsetIn(c.address, c.length, address); ok {
			where = fmt.Sprintf("byte %d of %d of buffer %d of %s on %s", offset, c.length, c.buffer, c, c.dev)
		}
		return where != ""
	})
	if where != "" {
		return where
	}
	wrappedBuffers.Range(func(_, found any) bool {
		whole := found.(Buffer)
		if _, onHost := HostBytes(whole); onHost || whole.Len() == 0 {
			return true
		}
		if offset, ok := offsetIn(whole.Address(), whole.Len(), address); ok {
			where = fmt.Sprintf("byte %d of %d of a buffer on %s that is not the batch's", offset, whole.Len(), whole.Device())
		}
		return where == ""
	})
	return where
}

// offsetIn returns the offset of address in a buffer of n bytes or its padding, which
// arrow-go accesses as well.
func offsetIn(base uintptr, n int64, address uintptr) (int64, bool) {
	return int64(address - base), n > 0 && base <= address && address-base < uintptr(alignUp(n))
}

// columnBuffer is a buffer of a batch that the host cannot access.
type columnBuffer struct {
	column  int
	path    string // "name", "name.child", "name.dictionary"
	dtype   arrow.DataType
	buffer  int // its index in the array, or in the child that path names
	address uintptr
	length  int64
	dev     Device
}

func (c columnBuffer) String() string {
	return fmt.Sprintf("column %d, %q, of type %s,", c.column, c.path, c.dtype)
}

// firstOnDevice returns the first buffer of a batch that the host cannot access.
func firstOnDevice(batch arrow.RecordBatch) (first columnBuffer, found bool) {
	walkDeviceBuffers(batch, func(c columnBuffer) bool {
		first, found = c, true
		return true
	})
	return first, found
}

// walkDeviceBuffers calls visit for each buffer of the columns that the host cannot
// access, until visit returns true.
func walkDeviceBuffers(batch arrow.RecordBatch, visit func(c columnBuffer) bool) {
	for i, column := range batch.Columns() {
		if walkArrayBuffers(column.Data(), columnBuffer{column: i, path: batch.ColumnName(i)}, visit) {
			return
		}
	}
}

func walkArrayBuffers(data arrow.ArrayData, c columnBuffer, visit func(c columnBuffer) bool) (done bool) {
	if isNil(data) {
		return false
	}
	c.dtype = data.DataType()
	for i, b := range data.Buffers() {
		whole, _, ok := lookupWrapped(b)
		if !ok || OnHost(b) {
			continue
		}
		c.buffer, c.address, c.length, c.dev = i, addressOf(b.Buf()), int64(b.Len()), whole.Device()
		if visit(c) {
			return true
		}
	}
	for i, child := range data.Children() {
		inner := c
		inner.path = c.path + "." + childName(data.DataType(), i)
		if walkArrayBuffers(child, inner, visit) {
			return true
		}
	}
	c.path += ".dictionary"
	return walkArrayBuffers(data.Dictionary(), c, visit)
}

// childName returns the field name of a child, or its number if the type has none.
func childName(dtype arrow.DataType, i int) string {
	if extension, ok := dtype.(arrow.ExtensionType); ok {
		dtype = extension.StorageType()
	}
	if nested, ok := dtype.(arrow.NestedType); ok && i < nested.NumFields() && nested.Fields()[i].Name != "" {
		return nested.Fields()[i].Name
	}
	return fmt.Sprint(i)
}
