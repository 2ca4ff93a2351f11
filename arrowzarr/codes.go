package arrowzarr

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// assembleCodes turns dictionary indices into codes, on the host.
func assembleCodes(c *column, parts []part, rows int64) (*chunk, error) {
	codes := make([]int64, 0, rows)
	for _, p := range parts {
		dictionary, ok := unwrap(p.values).(*array.Dictionary)
		if !ok {
			return nil, fmt.Errorf("array of %T for type %s", p.values, p.values.DataType())
		}
		indices := dictionary.Indices()
		index, err := indexReader(indices)
		if err != nil {
			return nil, err
		}
		for i := p.from; i < p.to; i++ {
			if indices.IsNull(int(i)) {
				codes = append(codes, -1)
				continue
			}
			at := index(int(i))
			if at < 0 || at >= int64(len(p.recode)) {
				return nil, fmt.Errorf("index %d into a dictionary of %d values", at, len(p.recode))
			}
			codes = append(codes, p.recode[at])
		}
	}
	values, err := narrow(codes, c.layout.dtype)
	if err != nil {
		return nil, err
	}
	return &chunk{values: values}, nil
}

// narrow makes an array of a signed integer type of values that fit it.
func narrow(codes []int64, dtype ndview.DType) (*ndview.NDBuffer, error) {
	n := int64(len(codes))
	switch dtype {
	case ndview.Int8:
		return ndview.FromHost(arrowbuf.CPU(), dtype, convert[int8](codes), n)
	case ndview.Int16:
		return ndview.FromHost(arrowbuf.CPU(), dtype, convert[int16](codes), n)
	case ndview.Int32:
		return ndview.FromHost(arrowbuf.CPU(), dtype, convert[int32](codes), n)
	default:
		return ndview.FromHost(arrowbuf.CPU(), dtype, codes, n)
	}
}

func convert[T int8 | int16 | int32](codes []int64) []T {
	out := make([]T, len(codes))
	for i, c := range codes {
		out[i] = T(c)
	}
	return out
}
