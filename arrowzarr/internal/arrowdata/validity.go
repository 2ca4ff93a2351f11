package arrowdata

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// ValidBits are the validity bits of an array, nil if no element is null.
type ValidBits struct {
	Bits   []byte
	offset int64
}

// BitmapOf returns the validity bits of an array without counting its nulls, which would
// write the number into the array. Goroutines may therefore share the array.
func BitmapOf(a arrow.Array) (ValidBits, error) {
	buffers := a.Data().Buffers()
	if a.Data().NullN() == 0 || len(buffers) == 0 || buffers[0] == nil || buffers[0].Len() == 0 {
		return ValidBits{}, nil
	}
	v := ValidBits{Bits: buffers[0].Bytes(), offset: int64(a.Data().Offset())}
	if need := bitutil.BytesForBits(v.offset + int64(a.Len())); int64(len(v.Bits)) < need {
		return ValidBits{}, fmt.Errorf("%s array with a validity bitmap of %d bytes, expected %d: %w", a.DataType(), len(v.Bits), need, ErrMalformed)
	}
	return v, nil
}

// IsNull reports whether element i is null.
func (v ValidBits) IsNull(i int64) bool {
	i += v.offset
	return v.Bits != nil && v.Bits[i>>3]&(1<<(i&7)) == 0
}

// ErrTooLong marks that rows have more elements or bytes than the offsets of their type
// can count. Fewer rows may fit.
var ErrTooLong = errors.New("more elements than the offsets of the type can count")
