package cdevice

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// layout says which buffers arrays of a type have. arrow-go has a place for a
// validity bitmap in all of them, C only in those that have one.
type layout struct {
	validity bool
	buffers  []bufferKind // behind the validity bitmap
	// variadic arrays have any number of buffers more, and in C a last one with
	// their sizes.
	variadic bool
}

// bufferKind is what is in a buffer.
type bufferKind struct {
	content content
	width   int64 // of an element, in bytes
}

type content int

const (
	values     content = iota // one for each element
	bits                      // one for each element
	offsets                   // one for each element and one more
	valueBytes                // as many bytes as the offsets before it say
)

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
	case arrow.FixedWidthDataType: // a dictionary's is that of its indices
		return layout{validity: true, buffers: []bufferKind{{values, int64(t.Bytes())}}}
	default:
		return layout{}
	}
}

// skipped is how many of arrow-go's buffers C does not have.
func (l layout) skipped() int {
	if l.validity {
		return 0
	}
	return 1
}

func (l layout) hasOffsets() bool { return len(l.buffers) > 0 && l.buffers[0].content == offsets }

// size is how many bytes a buffer of an array has that ends at an element; ok is
// false where no memory is so large. That of a heap is not known by its kind.
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

// alignment is where values of a width must lie on a device for kernels to load
// them, which is what the Arrow format promises: at multiples of the largest
// power of two in the width, 8 at most.
func (k bufferKind) alignment() uintptr {
	align := uintptr(1)
	for align < 8 && k.width > 0 && k.width%int64(2*align) == 0 {
		align *= 2
	}
	return align
}

// fieldsOf are the children of a type.
func fieldsOf(dtype arrow.DataType) []arrow.Field {
	if t, ok := dtype.(arrow.NestedType); ok {
		return t.Fields()
	}
	return nil
}

// storageOf is the type whose layout an array has.
func storageOf(dtype arrow.DataType) arrow.DataType {
	for {
		t, ok := dtype.(arrow.ExtensionType)
		if !ok {
			return dtype
		}
		dtype = t.StorageType()
	}
}

// path names a place in nested fields for errors.
type path string

// rootPath is an array or a schema itself.
const rootPath path = ""

func (p path) child(name string) path {
	if p == rootPath {
		return path(name)
	}
	return p + "." + path(name)
}

// wrap says where an error is.
func (p path) wrap(err error) error {
	if p == rootPath {
		return err
	}
	return fmt.Errorf("%q: %w", string(p), err)
}

// invalidf is an error about what another library hands over, or what it cannot be
// handed.
func (p path) invalidf(format string, args ...any) error {
	return p.wrap(invalidf(format, args...))
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), arrow.ErrInvalid)
}

// panicToError turns a panic of arrow-go, which is how it reports what does not fit
// together, into an error.
func panicToError(err *error) {
	if misfit := recover(); misfit != nil {
		*err = fmt.Errorf("%v: %w", misfit, arrow.ErrInvalid)
	}
}
