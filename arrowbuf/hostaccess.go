package arrowbuf

import (
	"fmt"
	"runtime/debug"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// CatchHostAccess runs f, which hands a batch to code that may have been written for
// memory of the host. Where f reads or writes the memory of a column on a device
// in place, Guard panics with an error that is ErrDevice, names the column and
// says to call ToHost. Without it Go ends the program: a fault is no panic that
// could be recovered from.
//
// Go tells of faults in the goroutine that runs f alone: in others that f starts,
// and in C, they still end the program, and a system call that is given device
// memory, such as a write to a file, fails with "bad address". Faults elsewhere
// than in the batch stay panics as the runtime makes them.
func CatchHostAccess(batch arrow.RecordBatch, f func()) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		failure := recover()
		if failure == nil {
			return
		}
		if fault, ok := failure.(interface{ Addr() uintptr }); ok {
			if err := touched(batch, fault.Addr()); err != nil {
				panic(err)
			}
		}
		panic(failure)
	}()
	f()
}

// touched returns an error about the column that an address is in, if it is.
func touched(batch arrow.RecordBatch, address uintptr) error {
	for i, column := range batch.Columns() {
		if dev := deviceAt(column.Data(), address); dev != nil {
			return fmt.Errorf("the host touched the memory of column %d, %q, of type %s, on %s; call ToHost first: %w",
				i, batch.ColumnName(i), column.DataType(), dev, ErrDevice)
		}
	}
	return nil
}

// deviceAt returns where an address is, if it is in a buffer of the array, or
// its padding, that the host cannot reach.
func deviceAt(data arrow.ArrayData, address uintptr) Device {
	for _, b := range data.Buffers() {
		if whole, _, ok := lookup(b); ok && !OnHost(b) && b.Len() > 0 {
			if base := sliceAddress(b.Buf()); base <= address && address-base < uintptr(roundUp(int64(b.Len()))) {
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
