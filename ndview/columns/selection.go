package columns

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Indices looks at a Go slice as an array of indices, without a copy. It need
// not be released.
func Indices[T int | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](list ...T) arrow.Array {
	var one T
	dtype := map[string]arrow.DataType{
		"int": arrow.PrimitiveTypes.Int64, "int8": arrow.PrimitiveTypes.Int8, "int16": arrow.PrimitiveTypes.Int16,
		"int32": arrow.PrimitiveTypes.Int32, "int64": arrow.PrimitiveTypes.Int64,
		"uint8": arrow.PrimitiveTypes.Uint8, "uint16": arrow.PrimitiveTypes.Uint16,
		"uint32": arrow.PrimitiveTypes.Uint32, "uint64": arrow.PrimitiveTypes.Uint64,
	}[fmt.Sprintf("%T", one)]
	data := array.NewData(dtype, len(list), []*memory.Buffer{nil, memory.NewBufferBytes(arrowBytes(list))}, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// selection says which elements of an array make another, in order.
type selection struct {
	at    *ndview.NDBuffer // int64, of elements of the array, or -1 for null
	n     int64
	nulls bool // some may be null
}

// resolve makes a selection from an array of integers, which are indices of
// extent elements. Nulls stay nulls. A bad index is arrowbuf.ErrOutOfRange, and
// the error names the first.
func (w *work) resolve(indices arrow.Array, extent int64) (selection, error) {
	kind, ok := indexKinds[indices.DataType().ID()]
	if !ok {
		return selection{}, fmt.Errorf("indices of type %s: integers are expected: %w", indices.DataType(), arrow.ErrInvalid)
	}
	moved, err := w.bring(indices)
	if err != nil {
		return selection{}, fmt.Errorf("indices: %w", err)
	}
	s, bad, err := w.resolveAs(moved.Data(), kind, extent)
	if err != nil {
		return selection{}, fmt.Errorf("indices: %w", err)
	}
	if bad >= 0 {
		return selection{}, fmt.Errorf("index %s, number %d, is outside %d elements: %w",
			indices.ValueStr(int(bad)), bad, extent, arrowbuf.ErrOutOfRange)
	}
	return s, nil
}

// indexKinds are the integers that may be indices, as the kernels call them.
var indexKinds = map[arrow.Type]string{
	arrow.INT8: "i8", arrow.INT16: "i16", arrow.INT32: "i32", arrow.INT64: "i64",
	arrow.UINT8: "u8", arrow.UINT16: "u16", arrow.UINT32: "u32", arrow.UINT64: "u64",
}

// resolveAs resolves the integers of an array on the device, and returns the
// number of the first bad one, or -1.
func (w *work) resolveAs(data arrow.ArrayData, kind string, extent int64) (s selection, bad int64, err error) {
	s.n = int64(data.Len())
	indices, err := w.fixed(data, 1, kindBytes[kind])
	if err != nil {
		return s, 0, err
	}
	valid, err := w.validity(data)
	if err != nil {
		return s, 0, err
	}
	if s.at, err = w.empty(ndview.Int64, s.n); err != nil {
		return s, 0, err
	}
	f, err := w.flag()
	if err != nil {
		return s, 0, err
	}
	s.nulls = valid.bytes != nil
	err = w.run(indexProgram, "quiver_resolve_"+kind, s.n, perTile,
		indices, valid.bytes, valid.first, s.n, extent, written{s.at}, written{f})
	if err != nil {
		return s, 0, err
	}
	bad, err = w.first(f)
	return s, bad, err
}

var kindBytes = map[string]int64{"i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8}

// A flag is a word in which kernels note the first item that is bad.
const noFlag = math.MaxUint64

func (w *work) flag() (*ndview.NDBuffer, error) {
	return w.array(ndview.Full(w.dev, ndview.Uint64, uint64(noFlag), 1))
}

// first is what a flag noted, or -1.
func (w *work) first(flag *ndview.NDBuffer) (int64, error) {
	var raw [8]byte
	if err := flag.CopyToHost(raw[:]); err != nil {
		return 0, err
	}
	return int64(binary.NativeEndian.Uint64(raw[:])), nil // noFlag is -1
}

// spread is the selection of the values of elements that have so many each.
func (w *work) spread(s selection, each int64) (selection, error) {
	if each == 1 || s.n == 0 {
		return s, nil
	}
	out := selection{n: s.n * each, nulls: s.nulls}
	if each > 0 && s.n > math.MaxInt64/8/each {
		return out, fmt.Errorf("%d elements of %d values: %w", s.n, each, arrowbuf.ErrOutOfRange)
	}
	var err error
	if out.at, err = w.empty(ndview.Int64, out.n); err != nil {
		return out, err
	}
	return out, w.run(indexProgram, "quiver_expand_fixed", out.n, perTile, s.at, out.n, each, written{out.at})
}

func arrowBytes[T any](list []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(one)))
}
