package arrowipc_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// The expected bytes follow from the Arrow columnar format.
func TestSwapReversesByteOrder(t *testing.T) {
	for _, c := range []struct {
		dtype     arrow.DataType
		big, want string
	}{
		{arrow.PrimitiveTypes.Int8, "01 02", "01 02"},
		{arrow.PrimitiveTypes.Uint16, "0102 0304 05", "0201 0403 05"},
		{arrow.FixedWidthTypes.Float16, "0102", "0201"},
		{arrow.PrimitiveTypes.Int32, "01020304", "04030201"},
		{arrow.PrimitiveTypes.Float64, "0102030405060708", "0807060504030201"},
		{&arrow.Decimal32Type{Precision: 9}, "01020304", "04030201"},
		{&arrow.Decimal128Type{Precision: 38}, "000102030405060708090a0b0c0d0e0f", "0f0e0d0c0b0a09080706050403020100"},
		{&arrow.FixedSizeBinaryType{ByteWidth: 4}, "01020304", "01020304"},
		{arrow.FixedWidthTypes.MonthInterval, "01020304", "04030201"},
		{arrow.FixedWidthTypes.DayTimeInterval, "01020304 05060708", "04030201 08070605"},
		{arrow.FixedWidthTypes.MonthDayNanoInterval, "01020304 05060708 090a0b0c0d0e0f10", "04030201 08070605 100f0e0d0c0b0a09"},
		{arrow.BinaryTypes.StringView, "00000003 616263000000000000000000", "03000000 616263000000000000000000"},
		{arrow.BinaryTypes.BinaryView, "0000000d 61626364 00000001 00000102", "0d000000 61626364 01000000 02010000"},
	} {
		t.Run(c.dtype.String(), func(t *testing.T) {
			b, err := hex.DecodeString(strings.ReplaceAll(c.big, " ", ""))
			require.NoError(t, err)
			arrowipc.Swap(c.dtype, b)
			assert.Equal(t, strings.ReplaceAll(c.want, " ", ""), hex.EncodeToString(b))
		})
	}
}
