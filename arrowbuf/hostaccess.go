package arrowbuf

import (
	"fmt"
	"runtime/debug"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// CatchHostAccess calls f, which passes batch to code that may have been written for
// host memory. If f reads or writes the device memory of a column in place,
// CatchHostAccess panics with an error that wraps ErrDevice and names the column.
// Without it, such a fault ends the program, because Go does not turn it into a
// panic.
//
// Go reports faults only of the goroutine that runs f. Faults in goroutines that f
// starts, and in C code, still end the program. A system call on device memory, such
// as a write to a file, fails with "bad address". Faults outside the batch's memory
// stay the runtime's panics.
func CatchHostAccess(batch arrow.RecordBatch, f func()) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		failure := recover()
		if failure == nil {
			return
		}
		if fault, ok := failure.(interface{ Addr() uintptr }); ok {
			if err := hostAccessError(batch, fault.Addr()); err != nil {
				panic(err)
			}
		}
		panic(failure)
	}()
	f()
}

// hostAccessError returns an error about the column that contains address, or nil.
func hostAccessError(batch arrow.RecordBatch, address uintptr) error {
	for i, column := range batch.Columns() {
		if dev := deviceAt(column.Data(), address); dev != nil {
			return fmt.Errorf("the host accessed the memory of column %d, %q, of type %s, on %s; call ToHost first: %w",
				i, batch.ColumnName(i), column.DataType(), dev, ErrDevice)
		}
	}
	return nil
}

// deviceAt returns the device whose memory contains address, if it is in a buffer of
// the array, or its padding, that the host cannot access. Otherwise it returns nil.
func deviceAt(data arrow.ArrayData, address uintptr) Device {
	for _, b := range data.Buffers() {
		if whole, _, ok := lookupWrapped(b); ok && !OnHost(b) && b.Len() > 0 {
			if base := addressOf(b.Buf()); base <= address && address-base < uintptr(alignUp(int64(b.Len()))) {
				return whole.Device()
			}
		}
	}
	for _, child := range data.Children() {
		if child == nil {
			continue
		}
		if dev := deviceAt(child, address); dev != nil {
			return dev
		}
	}
	if dictionary, ok := data.Dictionary().(*array.Data); ok && dictionary != nil {
		return deviceAt(dictionary, address)
	}
	return nil
}
