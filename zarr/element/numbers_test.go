package element_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var smallFloats = []element.Type{element.Float4E2M1FN, element.Float6E2M3FN, element.Float6E3M2FN, element.Float8E3M4, element.Float8E4M3, element.Float8E4M3B11FNUZ,
	element.Float8E4M3FN, element.Float8E4M3FNUZ, element.Float8E5M2, element.Float8E5M2FNUZ, element.Float8E8M0FNU}

// What ml_dtypes 0.6.0 makes of the numbers, by type in the order of smallFloats.
func TestFromNumbersRoundsLikeMLDtypes(t *testing.T) {
	inf := float32(math.Inf(1))
	numbers := []float32{inf, -inf, 1e30, -1e30, 0, float32(math.Copysign(0, -1)), -1, 3, 1.5, 0.75, 6, 1e-45, 448, 464, 465, 5, 3.5, 2.5, 1.4142136, 1.42}
	want := [][]byte{
		{0x7, 0xf, 0x7, 0xf, 0x0, 0x8, 0xa, 0x5, 0x3, 0x2, 0x7, 0x0, 0x7, 0x7, 0x7, 0x6, 0x6, 0x4, 0x3, 0x3},
		{0x1f, 0x3f, 0x1f, 0x3f, 0x0, 0x20, 0x28, 0x14, 0xc, 0x6, 0x1c, 0x0, 0x1f, 0x1f, 0x1f, 0x1a, 0x16, 0x12, 0xb, 0xb},
		{0x1f, 0x3f, 0x1f, 0x3f, 0x0, 0x20, 0x2c, 0x12, 0xe, 0xa, 0x16, 0x0, 0x1f, 0x1f, 0x1f, 0x15, 0x13, 0x11, 0xe, 0xe},
		{0x70, 0xf0, 0x70, 0xf0, 0x0, 0x80, 0xb0, 0x48, 0x38, 0x28, 0x58, 0x0, 0x70, 0x70, 0x70, 0x54, 0x4c, 0x44, 0x37, 0x37},
		{0x78, 0xf8, 0x78, 0xf8, 0x0, 0x80, 0xb8, 0x44, 0x3c, 0x34, 0x4c, 0x0, 0x78, 0x78, 0x78, 0x4a, 0x46, 0x42, 0x3b, 0x3b},
		{0x80, 0x80, 0x80, 0x80, 0x0, 0x0, 0xd8, 0x64, 0x5c, 0x54, 0x6c, 0x0, 0x80, 0x80, 0x80, 0x6a, 0x66, 0x62, 0x5b, 0x5b},
		{0x7f, 0xff, 0x7f, 0xff, 0x0, 0x80, 0xb8, 0x44, 0x3c, 0x34, 0x4c, 0x0, 0x7e, 0x7e, 0x7f, 0x4a, 0x46, 0x42, 0x3b, 0x3b},
		{0x80, 0x80, 0x80, 0x80, 0x0, 0x0, 0xc0, 0x4c, 0x44, 0x3c, 0x54, 0x0, 0x80, 0x80, 0x80, 0x52, 0x4e, 0x4a, 0x43, 0x43},
		{0x7c, 0xfc, 0x7c, 0xfc, 0x0, 0x80, 0xbc, 0x42, 0x3e, 0x3a, 0x46, 0x0, 0x5f, 0x5f, 0x5f, 0x45, 0x43, 0x41, 0x3e, 0x3e},
		{0x80, 0x80, 0x80, 0x80, 0x0, 0x0, 0xc0, 0x46, 0x42, 0x3e, 0x4a, 0x0, 0x63, 0x63, 0x63, 0x49, 0x47, 0x45, 0x42, 0x42},
		{0xff, 0xff, 0xe3, 0xff, 0xff, 0xff, 0xff, 0x81, 0x80, 0x7f, 0x82, 0x0, 0x88, 0x88, 0x88, 0x81, 0x81, 0x80, 0x7f, 0x7f},
	}
	values, err := ndview.FromHost(arrowbuf.CPU(), ndview.Float32, numbers, int64(len(numbers)))
	require.NoError(t, err)
	defer values.Release()
	for i, of := range smallFloats {
		bits, err := of.FromNumbers(values)
		require.NoError(t, err)
		raw, err := bits.Bytes()
		require.NoError(t, err)
		assert.Equal(t, want[i], raw, of.String())
		bits.Release()
	}
}

// Every encoding of a small float survives both conversions and its fill value.
func TestAllSmallFloatsRoundTrip(t *testing.T) {
	for _, of := range smallFloats {
		for bits := range 256 {
			raw := []byte{byte(bits)}
			if of.CheckElements(raw) != nil {
				continue
			}
			text, err := of.FormatFill(raw)
			require.NoError(t, err)
			require.True(t, json.Valid(text))
			fill, err := of.ParseFill(text)
			require.NoError(t, err, "%s %s", of, text)
			require.Equal(t, raw, fill, "%s %s", of, text)

			number := toNumber(t, of, byte(bits))
			values, err := ndview.FromHost(arrowbuf.CPU(), ndview.Float32, []float32{number}, 1)
			require.NoError(t, err)
			back, err := of.FromNumbers(values)
			require.NoError(t, err)
			if number == number {
				got, err := back.Bytes()
				require.NoError(t, err)
				require.Equal(t, raw, got, "%s %v", of, number)
			}
			back.Release()
			values.Release()
		}
	}
}

func toNumber(t *testing.T, of element.Type, bits byte) float32 {
	t.Helper()
	a, err := ndview.FromHost(arrowbuf.CPU(), ndview.Uint8, []uint8{bits}, 1)
	require.NoError(t, err)
	defer a.Release()
	numbers, err := of.ToNumbers(a)
	require.NoError(t, err)
	defer numbers.Release()
	out, err := ndview.ToHost[float32](numbers)
	require.NoError(t, err)
	return out[0]
}

func TestSmallFloatsHaveTheValuesOfTheirFormats(t *testing.T) {
	for _, c := range []struct {
		of     element.Type
		bits   byte
		number float64
	}{
		{element.Float4E2M1FN, 7, 6}, {element.Float4E2M1FN, 1, 0.5}, {element.Float4E2M1FN, 9, -0.5}, {element.Float6E2M3FN, 0x1f, 7.5}, {element.Float6E3M2FN, 0x1f, 28},
		{element.Float8E3M4, 0x6f, 15.5}, {element.Float8E4M3, 0x77, 240}, {element.Float8E4M3FN, 0x7e, 448}, {element.Float8E4M3FNUZ, 0x7f, 240},
		{element.Float8E4M3B11FNUZ, 0x7f, 30}, {element.Float8E5M2, 0x7b, 57344}, {element.Float8E5M2FNUZ, 0x7f, 57344}, {element.Float8E8M0FNU, 0, math.Ldexp(1, -127)},
		{element.Float8E8M0FNU, 0xfe, math.Ldexp(1, 127)}, {element.Float8E5M2, 1, math.Ldexp(1, -16)}, {element.Float8E5M2, 0xfc, math.Inf(-1)},
	} {
		assert.Equal(t, float32(c.number), toNumber(t, c.of, c.bits), "%s 0x%02x", c.of, c.bits)
	}
	for of, bits := range map[element.Type]byte{element.Float8E8M0FNU: 0xff, element.Float8E4M3FN: 0xff, element.Float8E4M3FNUZ: 0x80, element.Float8E5M2: 0x7d} {
		assert.True(t, toNumber(t, of, bits) != toNumber(t, of, bits), of.String())
	}
}

func TestSmallFloatsConvertOnTheirDevice(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		numbers, err := ndview.FromHost(dev, ndview.Float32, []float32{1, -2, 0.5, 448, 3, 0}, 2, 3)
		require.NoError(t, err)
		defer numbers.Release()
		bits, err := element.Float8E4M3FN.FromNumbers(numbers)
		require.NoError(t, err)
		defer bits.Release()
		turned, err := bits.Transpose()
		require.NoError(t, err)
		defer turned.Release()
		back, err := element.Float8E4M3FN.ToNumbers(turned)
		require.NoError(t, err)
		defer back.Release()
		assert.Equal(t, []int64{3, 2}, back.Shape())
		for _, a := range []*ndview.NDBuffer{bits, back} {
			assert.Equal(t, dev, a.Device())
		}
		got, err := ndview.ToHost[float32](back)
		require.NoError(t, err)
		assert.Equal(t, []float32{1, 448, -2, 3, 0.5, 0}, got)

		of := element.Complex(element.Float8E4M3FN)
		pairs, err := ndview.FromHost(dev, ndview.Complex64, []complex64{1 - 2i, 448}, 2)
		require.NoError(t, err)
		defer pairs.Release()
		records, err := of.FromNumbers(pairs)
		require.NoError(t, err)
		defer records.Release()
		same, err := of.ToNumbers(records)
		require.NoError(t, err)
		defer same.Release()
		assert.Equal(t, dev, same.Device())
		equal, err := same.Equal(pairs)
		require.NoError(t, err)
		assert.True(t, equal)
	})
}

func TestComplexRecordsConvert(t *testing.T) {
	for _, part := range []element.Type{element.Of(ndview.Float16), element.Of(ndview.BFloat16), element.Float8E5M2, element.Float4E2M1FN} {
		of := element.Complex(part)
		want := []complex64{1 - 2i, 0.5 + 4i, -6}
		values, err := ndview.FromHost(arrowbuf.CPU(), ndview.Complex64, want, 3)
		require.NoError(t, err)
		defer values.Release()
		small, err := of.FromNumbers(values)
		require.NoError(t, err)
		defer small.Release()
		require.NoError(t, of.CheckValues(small))
		back, err := of.ToNumbers(small)
		require.NoError(t, err)
		defer back.Release()
		got, err := ndview.ToHost[complex64](back)
		require.NoError(t, err)
		assert.Equal(t, want, got, of.String())
	}
}

func TestConversionsOfOtherTypesAreErrors(t *testing.T) {
	floats, err := ndview.FromHost(arrowbuf.CPU(), ndview.Float32, []float32{1, float32(math.NaN())}, 2)
	require.NoError(t, err)
	defer floats.Release()
	_, err = element.Int4.ToNumbers(floats)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = element.Of(ndview.Float32).FromNumbers(floats)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = element.Float8E5M2.ToNumbers(floats)
	assert.ErrorContains(t, err, "float32")
	_, err = element.Float8E5M2.ToNumbers(nil)
	assert.Error(t, err)
	_, err = element.Float8E5M2.FromNumbers(nil)
	assert.Error(t, err)
	_, err = element.Float4E2M1FN.FromNumbers(floats)
	assert.ErrorIs(t, err, ndview.ErrRange)
	assert.ErrorContains(t, err, "element 1")
	_, err = element.UTF32(2).ToVLen(nil)
	assert.Error(t, err)
	_, err = element.UTF32(2).ToVLen(floats)
	assert.Error(t, err)
	_, err = element.UTF32(2).FromVLen(nil)
	assert.Error(t, err)
}

func TestTextOfFixedLengthConverts(t *testing.T) {
	text := []string{"", "é", "🚀ab", "x"}
	for _, c := range []struct {
		of   element.Type
		long string
	}{{element.UTF32(3), "abcd"}, {element.NullTerminated(6), "abcdefg"}} {
		v, err := element.PackVLen(text, 2, 2)
		require.NoError(t, err)
		fixed, err := c.of.FromVLen(v)
		require.NoError(t, err)
		defer fixed.Release()
		require.NoError(t, c.of.CheckValues(fixed))
		turned, err := fixed.Transpose()
		require.NoError(t, err)
		defer turned.Release()
		back, err := c.of.ToVLen(turned)
		require.NoError(t, err)
		assert.Equal(t, []string{"", "🚀ab", "é", "x"}, stringsOf(back))
		assert.Equal(t, []int64{2, 2}, back.Shape())
		tooLong, err := element.PackVLen([]string{"", c.long}, 2)
		require.NoError(t, err)
		_, err = c.of.FromVLen(tooLong)
		assert.ErrorContains(t, err, "element 1", fmt.Sprint(c.of))
	}
	invalid, err := element.PackVLen([]string{"\xff"}, 1)
	require.NoError(t, err)
	_, err = element.UTF32(3).FromVLen(invalid)
	assert.ErrorIs(t, err, element.ErrInvalidUTF8)
	surrogate, err := ndview.FromBytes(arrowbuf.CPU(), ndview.Bytes(4), []byte{0, 0xd8, 0, 0}, 1)
	require.NoError(t, err)
	defer surrogate.Release()
	_, err = element.UTF32(1).ToVLen(surrogate)
	assert.ErrorContains(t, err, "element 0")
}
