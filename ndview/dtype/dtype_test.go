package dtype_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/stretchr/testify/assert"
)

func TestDTypesHaveNumPyNamesAndSizes(t *testing.T) {
	tests := []struct {
		dt   dtype.DType
		name string
		size int64
		kind dtype.Kind
	}{
		{dtype.Bool, "bool", 1, dtype.KindBool},
		{dtype.Int8, "int8", 1, dtype.KindInt},
		{dtype.Int16, "int16", 2, dtype.KindInt},
		{dtype.Int32, "int32", 4, dtype.KindInt},
		{dtype.Int64, "int64", 8, dtype.KindInt},
		{dtype.Uint8, "uint8", 1, dtype.KindUint},
		{dtype.Uint16, "uint16", 2, dtype.KindUint},
		{dtype.Uint32, "uint32", 4, dtype.KindUint},
		{dtype.Uint64, "uint64", 8, dtype.KindUint},
		{dtype.Float16, "float16", 2, dtype.KindFloat},
		{dtype.Float32, "float32", 4, dtype.KindFloat},
		{dtype.Float64, "float64", 8, dtype.KindFloat},
		{dtype.BFloat16, "bfloat16", 2, dtype.KindBFloat},
		{dtype.Complex64, "complex64", 8, dtype.KindComplex},
		{dtype.Complex128, "complex128", 16, dtype.KindComplex},
		{dtype.Datetime64(dtype.Microsecond, 1), "datetime64[us]", 8, dtype.KindDatetime},
		{dtype.Datetime64(dtype.Second, 25), "datetime64[25s]", 8, dtype.KindDatetime},
		{dtype.Timedelta64(dtype.Day, 1), "timedelta64[D]", 8, dtype.KindTimedelta},
		{dtype.Bytes(3), "V3", 3, dtype.KindBytes},
		{dtype.DType{}, "invalid", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.name, tt.dt.String())
			assert.Equal(t, tt.size, tt.dt.Size())
			assert.Equal(t, tt.kind, tt.dt.Kind())
		})
	}
}

func TestDTypesCompareAllParameters(t *testing.T) {
	assert.Equal(t, dtype.Datetime64(dtype.Second, 1), dtype.Datetime64("s", 1))
	assert.NotEqual(t, dtype.Datetime64(dtype.Second, 1), dtype.Timedelta64(dtype.Second, 1))
	assert.NotEqual(t, dtype.Datetime64(dtype.Second, 1), dtype.Datetime64(dtype.Millisecond, 1))
	assert.NotEqual(t, dtype.Datetime64(dtype.Second, 1), dtype.Datetime64(dtype.Second, 10))
	assert.NotEqual(t, dtype.Bytes(2), dtype.Bytes(4))

	d := dtype.Datetime64(dtype.Second, 10)
	assert.Equal(t, dtype.Second, d.Unit())
	assert.EqualValues(t, 10, d.Step())
	assert.Empty(t, dtype.Int64.Unit())
	assert.Zero(t, dtype.Int64.Step())
}

func TestInvalidParametersReturnZeroDType(t *testing.T) {
	for _, dt := range []dtype.DType{
		dtype.Datetime64("fortnight", 1), dtype.Datetime64("s", 0), dtype.Timedelta64("", 1), dtype.Timedelta64("D", -1),
		dtype.Bytes(0), dtype.Bytes(-1),
	} {
		assert.Equal(t, dtype.DType{}, dt)
		assert.Equal(t, "invalid", dt.NumPy())
	}
	assert.Equal(t, dtype.Datetime64("generic", 1), dtype.Datetime64("generic", 7))
}
