package ndview_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/ndview"
)

func TestDTypesHaveNumPysNamesAndSizes(t *testing.T) {
	tests := []struct {
		dtype ndview.DType
		name  string
		size  int64
		kind  ndview.Kind
	}{
		{ndview.Bool, "bool", 1, ndview.KindBool},
		{ndview.Int8, "int8", 1, ndview.KindInt},
		{ndview.Int16, "int16", 2, ndview.KindInt},
		{ndview.Int32, "int32", 4, ndview.KindInt},
		{ndview.Int64, "int64", 8, ndview.KindInt},
		{ndview.Uint8, "uint8", 1, ndview.KindUint},
		{ndview.Uint16, "uint16", 2, ndview.KindUint},
		{ndview.Uint32, "uint32", 4, ndview.KindUint},
		{ndview.Uint64, "uint64", 8, ndview.KindUint},
		{ndview.Float16, "float16", 2, ndview.KindFloat},
		{ndview.Float32, "float32", 4, ndview.KindFloat},
		{ndview.Float64, "float64", 8, ndview.KindFloat},
		{ndview.BFloat16, "bfloat16", 2, ndview.KindBFloat},
		{ndview.Complex64, "complex64", 8, ndview.KindComplex},
		{ndview.Complex128, "complex128", 16, ndview.KindComplex},
		{ndview.Datetime64(ndview.Microsecond, 1), "datetime64[us]", 8, ndview.KindDatetime},
		{ndview.Datetime64(ndview.Second, 25), "datetime64[25s]", 8, ndview.KindDatetime},
		{ndview.Timedelta64(ndview.Day, 1), "timedelta64[D]", 8, ndview.KindTimedelta},
		{ndview.Bytes(3), "V3", 3, ndview.KindBytes},
		{ndview.DType{}, "invalid", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.name, tt.dtype.String())
			assert.Equal(t, tt.size, tt.dtype.Size())
			assert.Equal(t, tt.kind, tt.dtype.Kind())
		})
	}
}

func TestDTypesAreEqualByAllTheirParameters(t *testing.T) {
	assert.Equal(t, ndview.Datetime64(ndview.Second, 1), ndview.Datetime64("s", 1))
	assert.NotEqual(t, ndview.Datetime64(ndview.Second, 1), ndview.Timedelta64(ndview.Second, 1))
	assert.NotEqual(t, ndview.Datetime64(ndview.Second, 1), ndview.Datetime64(ndview.Millisecond, 1))
	assert.NotEqual(t, ndview.Datetime64(ndview.Second, 1), ndview.Datetime64(ndview.Second, 10))
	assert.NotEqual(t, ndview.Bytes(2), ndview.Bytes(4))

	d := ndview.Datetime64(ndview.Second, 10)
	assert.Equal(t, ndview.Second, d.Unit())
	assert.EqualValues(t, 10, d.Step())
	assert.Empty(t, ndview.Int64.Unit())
	assert.Zero(t, ndview.Int64.Step())
}
