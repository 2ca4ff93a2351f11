package codec_test

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/numcodecs.json
var numcodecsGolden []byte

type numcodecsCase struct {
	Config                   json.RawMessage
	DType                    string
	Shape                    []int64
	Values, Encoded, Decoded []byte
	Exact                    bool
}

func (c numcodecsCase) chain(t *testing.T) (*codec.Chain, element.Type) {
	t.Helper()
	dtype, order, err := ndview.ParseDType(c.DType)
	require.NoError(t, err)
	of := element.Of(dtype)
	v := codec.V2{Order: "C", Filters: json.RawMessage(fmt.Sprintf("[%s]", c.Config))}
	switch order {
	case '<':
		v.Endian = codec.Little
	case '>':
		v.Endian = codec.Big
	}
	list, err := v.List(of, len(c.Shape))
	require.NoError(t, err)
	chain, err := list.Compile(codec.ChunkSpec{Type: of, Shape: c.Shape, Fill: of.DefaultFill()})
	require.NoError(t, err)
	return chain, of
}

// native returns elements in the byte order of the host.
func native(t *testing.T, dtype string, of element.Type, raw []byte) []byte {
	t.Helper()
	if dtype[0] != '>' {
		return raw
	}
	out := make([]byte, len(raw))
	of.SwapBytes(out, raw)
	return out
}

// withPlainNaNs returns the encoding with positive NaNs in place of others, where
// arithmetic of float16 makes NaNs: x86 sets their sign, arm64 does not.
func (c numcodecsCase) withPlainNaNs(raw []byte) []byte {
	if c.DType != "<f2" || !bytes.Contains(c.Config, []byte("quantize")) {
		return raw
	}
	out := bytes.Clone(raw)
	for i := 0; i+1 < len(out); i += 2 {
		if binary.LittleEndian.Uint16(out[i:])&0x7fff > 0x7c00 {
			binary.LittleEndian.PutUint16(out[i:], 0x7e00)
		}
	}
	return out
}

func TestCodecsMatchNumcodecs(t *testing.T) {
	var cases []numcodecsCase
	require.NoError(t, json.Unmarshal(numcodecsGolden, &cases))
	require.Greater(t, len(cases), 300)
	for i, c := range cases {
		t.Run(fmt.Sprintf("%d %s %s", i, c.Config, c.DType), func(t *testing.T) {
			chain, of := c.chain(t)
			size := int(grid.Size(c.Shape) * of.Size())
			if c.Decoded == nil {
				c.Decoded = c.Values
			}
			want := native(t, c.DType, of, c.Decoded)
			got, err := decode(chain, size, c.Encoded)
			require.NoError(t, err)
			require.Equal(t, want, got, "decoding")
			dtype, _ := of.DType()
			values, err := ndview.FromBytes(arrowbuf.CPU(), dtype, native(t, c.DType, of, c.Values), c.Shape...)
			require.NoError(t, err)
			defer values.Release()
			s := codec.GetScratch()
			defer s.Release()
			s.KeepEmpty = true
			enc, err := chain.Encode(s, values)
			require.NoError(t, err)
			if c.Exact {
				require.Equal(t, c.withPlainNaNs(c.Encoded), c.withPlainNaNs(enc), "encoding")
				return
			}
			got, err = decode(chain, size, append([]byte{}, enc...))
			require.NoError(t, err)
			require.Equal(t, want, got, "round trip")
		})
	}
}

// The integers are what NumPy 2 makes of the floats on x86-64.
func TestStoredNumbersOutOfRangeAreReadAsNumPyDoes(t *testing.T) {
	stored := []float64{300, -1, math.NaN(), 1e10, -300.7, 3e9, -1e19, math.Inf(1)}
	for dtype, want := range map[string][]int64{
		"|i1": {44, -1, 0, 0, -44, 0, 0, 0},
		"|u1": {44, 255, 0, 0, 212, 0, 0, 0},
		"<i2": {300, -1, 0, 0, -300, 0, 0, 0},
		"<u2": {300, 65535, 0, 0, 65236, 0, 0, 0},
		"<i4": {300, -1, math.MinInt32, math.MinInt32, -300, math.MinInt32, math.MinInt32, math.MinInt32},
		"<i8": {300, -1, math.MinInt64, 1e10, -300, 3e9, math.MinInt64, math.MinInt64},
		"<u8": {300, -1, math.MinInt64, 1e10, -300, 3e9, math.MinInt64, 0}, // as bits
	} {
		of, _, err := element.ParseV2([]byte(`"` + dtype + `"`))
		require.NoError(t, err)
		list := codec.List{codec.AsType{EncodeDType: "<f8", DecodeDType: dtype}, codec.Bytes{Endian: codec.Little}}
		chain, err := list.Compile(codec.ChunkSpec{Type: of, Shape: []int64{int64(len(stored))}, Fill: of.DefaultFill()})
		require.NoError(t, err)
		var encoded []byte
		for _, x := range stored {
			encoded = binary.LittleEndian.AppendUint64(encoded, math.Float64bits(x))
		}
		size := int(of.Size())
		got := make([]byte, size*len(stored))
		require.NoError(t, chain.DecodeFixed(codec.GetScratch(), got, encoded))
		for i, x := range want {
			assert.Equal(t, binary.LittleEndian.AppendUint64(nil, uint64(x))[:size], got[i*size:(i+1)*size], "%g as %s", stored[i], dtype)
		}
	}
}
