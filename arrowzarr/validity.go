package arrowzarr

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// validBits are the validity bits of an array, nil if no element is null.
type validBits struct {
	bits   []byte
	offset int64
}

// bitmapOf returns the validity bits of an array without counting its nulls, which would
// write the number into the array. Goroutines may therefore share the array.
func bitmapOf(a arrow.Array) (validBits, error) {
	buffers := a.Data().Buffers()
	if a.Data().NullN() == 0 || len(buffers) == 0 || buffers[0] == nil || buffers[0].Len() == 0 {
		return validBits{}, nil
	}
	v := validBits{bits: buffers[0].Bytes(), offset: int64(a.Data().Offset())}
	if need := bitutil.BytesForBits(v.offset + int64(a.Len())); int64(len(v.bits)) < need {
		return validBits{}, fmt.Errorf("%s array with a validity bitmap of %d bytes, expected %d: %w", a.DataType(), len(v.bits), need, arrowdata.ErrMalformed)
	}
	return v, nil
}

// isNull reports whether element i is null.
func (v validBits) isNull(i int64) bool {
	i += v.offset
	return v.bits != nil && v.bits[i>>3]&(1<<(i&7)) == 0
}

// errTooLong marks that rows have more elements or bytes than the offsets of their type
// can count. Fewer rows may fit.
var errTooLong = errors.New("more elements than the offsets of the type can count")
