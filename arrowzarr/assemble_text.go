package arrowzarr

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// assembleText joins slices of utf8 or binary columns on the host. It returns a view
// of a single slice without nulls.
func assembleText(parts []columnSlice, rows int64) (*chunkArrays, error) {
	if len(parts) == 1 && parts[0].values.NullN() == 0 {
		values, err := viewText(parts[0])
		if err != nil || values != nil {
			return &chunkArrays{values: values}, err
		}
	}
	out := &chunkArrays{}
	offsets := make([]int64, 1, rows+1)
	var data []byte
	var missing []bool
	for _, p := range parts {
		value, err := valueReader(p.values)
		if err != nil {
			return nil, err
		}
		for i := p.from; i < p.to; i++ {
			if p.values.IsNull(int(i)) {
				if missing == nil {
					missing = make([]bool, rows)
				}
				missing[len(offsets)-1] = true
			} else {
				data = append(data, value(int(i))...)
			}
			offsets = append(offsets, int64(len(data)))
		}
	}
	values, err := element.NewVLen(offsets, data, rows)
	if err != nil {
		return nil, err
	}
	out.values = values
	if missing != nil {
		if out.mask, err = ndview.FromHost(arrowbuf.CPU(), ndview.Bool, missing, rows); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// viewText returns a view of the offsets and bytes of a slice; nil for view types,
// which have no offsets. Invalid offsets are an error.
func viewText(p columnSlice) (element.Values, error) {
	data := p.values.Data()
	buffers := data.Buffers()
	if len(buffers) < 3 || buffers[1] == nil || p.rows() == 0 {
		return nil, nil
	}
	var bytes []byte
	if buffers[2] != nil {
		bytes = buffers[2].Bytes()
	}
	from, to := int64(data.Offset())+p.from, int64(data.Offset())+p.to+1
	switch arrowdata.StorageType(p.values.DataType()).(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return viewStrings(arrow.Int32Traits.CastFromBytes(buffers[1].Bytes()), bytes, from, to)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return viewStrings(arrow.Int64Traits.CastFromBytes(buffers[1].Bytes()), bytes, from, to)
	}
	return nil, nil
}

func viewStrings[O element.Offset](offsets []O, bytes []byte, from, to int64) (element.Values, error) {
	if to > int64(len(offsets)) {
		return nil, fmt.Errorf("%d offsets, expected at least %d", len(offsets), to)
	}
	values, err := element.NewVLen(offsets[from:to], bytes, to-from-1)
	if err != nil {
		return nil, err // not an interface that holds a nil pointer
	}
	return values, nil
}

// valueReader returns a function that returns the bytes of value i.
func valueReader(values arrow.Array) (func(i int) []byte, error) {
	switch v := arrowdata.Unwrap(values).(type) {
	case interface{ Value(int) string }:
		return func(i int) []byte {
			s := v.Value(i)
			return unsafe.Slice(unsafe.StringData(s), len(s))
		}, nil
	case interface{ Value(int) []byte }:
		return v.Value, nil
	}
	return nil, fmt.Errorf("array of %T, expected text or bytes", values)
}
