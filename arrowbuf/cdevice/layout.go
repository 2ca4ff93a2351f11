package cdevice

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// layout describes the buffers of arrays of a type. arrow-go has a validity bitmap
// at index 0 of all arrays, C only if the type has one.
type layout struct {
	validity bool
	buffers  []bufferKind // after the validity bitmap
	// variadic arrays have any number of further buffers, and in C a last one with
	// their lengths.
	variadic bool
}

// bufferKind describes the content of a buffer.
type bufferKind struct {
	content content
	width   int64 // bytes per element
}

// content is what a buffer holds.
type content int

const (
	values     content = iota // one per element
	bits                      // one per element
	offsets                   // one per element, and one more
	valueBytes                // as many bytes as the last offset says
)

// layoutOf returns the layout of a storage type.
func layoutOf(storage arrow.DataType) layout {
	switch t := storage.(type) {
	case *arrow.NullType, *arrow.RunEndEncodedType:
		return layout{}
	case *arrow.SparseUnionType:
		return layout{buffers: []bufferKind{{values, 1}}}
	case *arrow.DenseUnionType:
		return layout{buffers: []bufferKind{{values, 1}, {values, 4}}}
	case *arrow.StructType, *arrow.FixedSizeListType:
		return layout{validity: true}
	case *arrow.ListType, *arrow.MapType:
		return layout{validity: true, buffers: []bufferKind{{offsets, 4}}}
	case *arrow.LargeListType:
		return layout{validity: true, buffers: []bufferKind{{offsets, 8}}}
	case *arrow.ListViewType:
		return layout{validity: true, buffers: []bufferKind{{values, 4}, {values, 4}}}
	case *arrow.LargeListViewType:
		return layout{validity: true, buffers: []bufferKind{{values, 8}, {values, 8}}}
	case *arrow.StringType, *arrow.BinaryType:
		return layout{validity: true, buffers: []bufferKind{{offsets, 4}, {valueBytes, 1}}}
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return layout{validity: true, buffers: []bufferKind{{offsets, 8}, {valueBytes, 1}}}
	case arrow.BinaryViewDataType:
		return layout{validity: true, buffers: []bufferKind{{values, int64(arrow.ViewHeaderSizeBytes)}}, variadic: true}
	case *arrow.BooleanType:
		return layout{validity: true, buffers: []bufferKind{{bits, 1}}}
	case arrow.FixedWidthDataType: // a dictionary type has the width of its indices
		return layout{validity: true, buffers: []bufferKind{{values, int64(t.Bytes())}}}
	default:
		return layout{}
	}
}

// skipped returns the number of arrow-go's buffers that C does not have.
func (l layout) skipped() int {
	if l.validity {
		return 0
	}
	return 1
}

func (l layout) hasOffsets() bool { return len(l.buffers) > 0 && l.buffers[0].content == offsets }

// size returns the size in bytes of a buffer with elements up to end. It returns
// false if the size overflows. It must not be called for valueBytes.
func (k bufferKind) size(end int64) (n int64, ok bool) {
	switch k.content {
	case bits:
		return bitutil.BytesForBits(end), true
	case offsets:
		end++
	}
	if k.width > 0 && end > math.MaxInt64/k.width {
		return 0, false
	}
	return end * k.width, true
}

// alignment returns the alignment that kernels need to load values on a device: the
// largest power of two that divides the width, at most 8. The Arrow format promises
// no more.
func (k bufferKind) alignment() uintptr {
	align := uintptr(1)
	for align < 8 && k.width > 0 && k.width%int64(2*align) == 0 {
		align *= 2
	}
	return align
}

// fieldsOf returns the children of a type.
func fieldsOf(dtype arrow.DataType) []arrow.Field {
	if t, ok := dtype.(arrow.NestedType); ok {
		return t.Fields()
	}
	return nil
}

// storageOf returns the type that defines the layout of an array: the storage type
// of an extension type, otherwise dtype.
func storageOf(dtype arrow.DataType) arrow.DataType {
	for {
		t, ok := dtype.(arrow.ExtensionType)
		if !ok {
			return dtype
		}
		dtype = t.StorageType()
	}
}

// path is the dotted path of a nested field, for errors.
type path string

// rootPath is the path of the array or schema itself.
const rootPath path = ""

func (p path) child(name string) path {
	if p == rootPath {
		return path(name)
	}
	return p + "." + path(name)
}

// wrap adds the path to an error.
func (p path) wrap(err error) error {
	if p == rootPath {
		return err
	}
	return fmt.Errorf("%q: %w", string(p), err)
}

// invalidf is the function invalidf with the path added.
func (p path) invalidf(format string, args ...any) error {
	return p.wrap(invalidf(format, args...))
}

// invalidf returns an error wrapping arrow.ErrInvalid.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), arrow.ErrInvalid)
}

// panicToError recovers a panic of arrow-go, which panics on some invalid input, and
// sets *err. It must be deferred.
func panicToError(err *error) {
	if misfit := recover(); misfit != nil {
		*err = fmt.Errorf("%v: %w", misfit, arrow.ErrInvalid)
	}
}
