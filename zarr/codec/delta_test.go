package codec_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// numcodecs stores [10, 3, 200] of uint16 so, where it restores all numbers.
func TestDeltasOfUnsignedIntegersFitSmallerSignedOnes(t *testing.T) {
	of := element.Of(ndview.Uint16)
	raw := []byte{10, 0, 3, 0, 100, 0}
	for astype, want := range map[string]string{"|i1": "0af961", "<i4": "0a000000f9ff000061000000", "<i8": "0a00000000000000f9ff0000000000006100000000000000"} {
		list := codec.List{codec.Delta{DType: "<u2", AsType: astype}, little}
		enc, dec := throughChain(t, list, of, raw, 3)
		assert.Equal(t, want, hex.EncodeToString(enc), astype)
		assert.Equal(t, raw, dec)
	}
}

func TestDeltasThatTheirTypeLosesAreErrors(t *testing.T) {
	for _, c := range []struct {
		astype string
		raw    []byte
	}{{"|i1", []byte{10, 0, 200, 0}}, {"|u1", []byte{10, 0, 3, 0}}} {
		list := codec.List{codec.Delta{DType: "<u2", AsType: c.astype}, little}
		chain, err := list.Compile(codec.ChunkSpec{Type: element.Of(ndview.Uint16), Shape: []int64{2}, Fill: []byte{0, 0}})
		require.NoError(t, err)
		s := codec.GetScratch()
		_, err = chain.Encode(s, values(t, element.Of(ndview.Uint16), c.raw, []int64{2}))
		s.Release()
		assert.ErrorContains(t, err, "element 1", c.astype)
	}
}

// NumPy adds in the larger of both types, and rounds each sum to the decoded type.
func TestFloatDeltasAreAddedAsInNumPy(t *testing.T) {
	for _, c := range []struct {
		dtype, astype string
		stored        any
		want          string
	}{
		{"<f4", "<f8", []float64{1e8, 3, 3, 3}, "20bcbe4c20bcbe4c21bcbe4c21bcbe4c"},
		{"<f4", "<f4", []float32{1e8, 3, 3, 3}, "20bcbe4c20bcbe4c20bcbe4c20bcbe4c"},
		{"<f4", "<i4", []int32{100000000, 3, 3, 3}, "20bcbe4c20bcbe4c21bcbe4c21bcbe4c"},
		{"<f2", "<f8", []float64{2048, 1, 1, 1}, "0068006801680268"},
		{"<f2", "|i1", []int8{100, 1, 1, 1}, "4056505660567056"},
		{"<i4", "<f8", []float64{0.75, 0.75, 0.75, 1}, "00000000010000000200000003000000"},
	} {
		t.Run(fmt.Sprintf("%s as %s", c.dtype, c.astype), func(t *testing.T) {
			of, _, err := element.ParseV2([]byte(`"` + c.dtype + `"`))
			require.NoError(t, err)
			chain, err := codec.List{codec.Delta{DType: c.dtype, AsType: c.astype}, little}.Compile(codec.ChunkSpec{Type: of, Shape: []int64{4}, Fill: of.DefaultFill()})
			require.NoError(t, err)
			stored, err := binary.Append(nil, binary.LittleEndian, c.stored)
			require.NoError(t, err)
			got, err := decode(chain, int(4*of.Size()), stored)
			require.NoError(t, err)
			assert.Equal(t, c.want, hex.EncodeToString(got))
		})
	}
}

func TestDeltasOfTimesEndAtNaT(t *testing.T) {
	of := element.Of(ndview.Timedelta64("s", 1))
	chain, err := codec.List{codec.Delta{DType: "<m8[s]"}, little}.Compile(codec.ChunkSpec{Type: of, Shape: []int64{4}, Fill: of.DefaultFill()})
	require.NoError(t, err)
	stored := int64Bytes(5, 1, math.MinInt64, 2)
	got, err := decode(chain, len(stored), stored)
	require.NoError(t, err)
	assert.Equal(t, int64Bytes(5, 6, math.MinInt64, math.MinInt64), got)
	s := codec.GetScratch()
	defer s.Release()
	ended := int64Bytes(5, 6, math.MinInt64, math.MinInt64)
	enc, err := chain.Encode(s, values(t, of, ended, []int64{4}))
	require.NoError(t, err)
	assert.Equal(t, int64Bytes(5, 1, math.MinInt64, math.MinInt64), enc)
	_, err = chain.Encode(s, values(t, of, int64Bytes(5, math.MinInt64, 7, 8), []int64{4}))
	assert.ErrorContains(t, err, "element 2 is NaT or follows it")
	_, err = chain.Encode(s, values(t, of, int64Bytes(-1<<62, 1<<62, 0, 0), []int64{4}))
	assert.ErrorContains(t, err, "element 1 differs")
}

// numcodecs stores fill values of 0 there, which its type of differences cannot hold either.
func TestDeltasOfPaddedChunksRestoreTheirElements(t *testing.T) {
	of := element.Of(ndview.Uint16)
	list := codec.List{codec.Delta{DType: "<u2", AsType: "|u1"}, little}
	chain, err := list.Compile(codec.ChunkSpec{Type: of, Shape: []int64{3, 3}, Fill: []byte{0, 0}})
	require.NoError(t, err)
	s := codec.GetScratch()
	defer s.Release()
	enc, err := chain.Encode(s, values(t, of, []byte{10, 0, 20, 0, 30, 0, 40, 0}, []int64{2, 2}))
	require.NoError(t, err)
	assert.Equal(t, []byte{10, 10, 0, 10, 10, 0, 0, 0, 0}, enc)
	_, err = chain.Encode(s, values(t, of, []byte{10, 0, 9, 0, 30, 0, 40, 0}, []int64{2, 2}))
	assert.ErrorContains(t, err, "element 1 differs by -1")
}
