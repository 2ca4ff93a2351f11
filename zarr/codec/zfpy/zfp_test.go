package zfpy

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/codec/internal/codectest"
	"github.com/quiver-gpu/quiver/zarr/element"
)

const goldenZFP = "testdata/golden_zfp.json"

func TestZFPEncodingsAreThoseOfTheLibrary(t *testing.T) {
	cases := codectest.Cases(t, goldenZFP)
	codectest.EncodesTheSame(t, cases, parseZFP)
	codectest.RefusesCorruptChunks(t, cases, parseZFP, 8, 0)
	for _, g := range cases {
		c, err := parseZFP(g.Config)
		require.NoError(t, err)
		if c.(ZFP).Mode == ModeReversible {
			require.Equal(t, g.Values, g.Decoded, g.Name)
		}
	}
}

// Each mode is a case of expert mode (zfp, "Compression modes").
func TestExpertModeIsEveryOtherMode(t *testing.T) {
	for _, g := range codectest.Cases(t, goldenZFP) {
		c, err := parseZFP(g.Config)
		require.NoError(t, err)
		expert := ZFP{Mode: ModeExpert, MinBits: 1, MaxBits: 16658, MaxPrec: 64, MinExp: -1074}
		switch c := c.(ZFP); c.Mode {
		case ModeReversible:
			expert.MinExp = -1075
		case ModeFixedPrecision:
			expert.MaxPrec = c.Precision
		case ModeFixedAccuracy:
			expert.MinExp = int32(math.Floor(math.Log2(c.Tolerance)))
		default:
			continue
		}
		raw, err := json.Marshal(expert.Configuration())
		require.NoError(t, err)
		again, err := parseZFP(raw)
		require.NoError(t, err)
		require.Equal(t, expert, again)
		encoded, err := codectest.Serializer(t, expert, g.Type(t), g.Shape...).Encode(nil, g.Values)
		require.NoError(t, err)
		require.Equal(t, g.Encoded, encoded, g.Name)
	}
}

func TestUnsignedIntegersThatASignedTypeLacks(t *testing.T) {
	s, err := ZFP{Mode: ModeReversible}.Serializer(codec.ChunkSpec{Type: element.Of(ndview.Uint32), Shape: []int64{4}})
	require.NoError(t, err)
	_, err = s.Encode(nil, binary.LittleEndian.AppendUint32(make([]byte, 12), 1<<31))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "element 3")
}

func TestZFPRefusesOtherKinds(t *testing.T) {
	for _, of := range []element.Type{element.Of(ndview.Bool), element.Of(ndview.Float16), element.Of(ndview.Complex64), element.Float8E4M3, element.Int4, element.Of(ndview.Bytes(4)), element.String} {
		_, err := ZFP{Mode: ModeReversible}.Serializer(codec.ChunkSpec{Type: of, Shape: []int64{4}})
		assert.ErrorIs(t, err, errors.ErrUnsupported, of)
	}
	_, err := ZFP{Mode: ModeReversible}.Serializer(codec.ChunkSpec{Type: element.Of(ndview.Int8), Shape: []int64{1, 1, 1, 1, 1}})
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestInvalidZFPConfigurations(t *testing.T) {
	for _, text := range []string{
		``, `[]`, `{}`, `{"mode":"fast"}`, `{"mode":"reversible","rate":1}`, `{"mode":"fixed_rate"}`, `{"mode":"fixed_rate","rate":0}`, `{"mode":"fixed_rate","rate":65}`,
		`{"mode":"fixed_rate","rate":8,"precision":3}`, `{"mode":"fixed_precision","precision":0}`, `{"mode":"fixed_precision","precision":65}`, `{"mode":"fixed_precision","precision":1.5}`,
		`{"mode":"fixed_accuracy","tolerance":-1}`, `{"mode":"fixed_accuracy","tolerance":"NaN"}`, `{"mode":"expert","minbits":1}`, `{"mode":"reversible","write_header":true}`,
		`{"mode":"expert","minbits":2,"maxbits":1,"maxprec":1,"minexp":0}`, `{"mode":"expert","minbits":20000,"maxbits":20000,"maxprec":1,"minexp":0}`, `{"mode":"expert","minbits":0,"maxbits":1,"maxprec":65,"minexp":0}`,
		`{"mode":"expert","minbits":2,"maxbits":9,"maxprec":64,"minexp":-1075}`,
	} {
		_, err := parseZFP(json.RawMessage(text))
		assert.Error(t, err, text)
	}
}

func TestZFPMetadataRoundTrips(t *testing.T) {
	for _, config := range []string{
		`{"mode":"reversible"}`, `{"mode":"fixed_rate","rate":12.5}`, `{"mode":"fixed_precision","precision":14}`, `{"mode":"fixed_accuracy","tolerance":0.05}`,
		`{"mode":"fixed_accuracy","tolerance":0}`, `{"mode":"expert","minbits":1,"maxbits":16658,"maxprec":20,"minexp":-10}`,
	} {
		text := fmt.Sprintf(`[{"name":"zfp","configuration":%s}]`, config)
		var list codec.List
		require.NoError(t, json.Unmarshal([]byte(text), &list))
		raw, err := json.Marshal(list)
		require.NoError(t, err)
		assert.JSONEq(t, text, string(raw))
	}
}

// FuzzDecodeZFP decodes any bytes in any mode: no input stops the process or the module.
func FuzzDecodeZFP(f *testing.F) {
	for _, g := range codectest.Cases(f, goldenZFP)[:60] {
		c, err := parseZFP(g.Config)
		require.NoError(f, err)
		p, err := c.(ZFP).parameters(ndview.Float64, len(g.Shape))
		require.NoError(f, err)
		f.Add(uint8(len(g.Shape)), uint32(p[0]), uint32(p[1]), uint32(p[2]), int32(uint32(p[3])), g.Encoded)
	}
	types := []ndview.DType{ndview.Int8, ndview.Uint16, ndview.Int32, ndview.Uint32, ndview.Int64, ndview.Float32, ndview.Float64}
	f.Fuzz(func(t *testing.T, kind uint8, minBits, maxBits, maxPrec uint32, minExp int32, src []byte) {
		c := ZFP{Mode: ModeExpert, MinBits: minBits, MaxBits: maxBits, MaxPrec: maxPrec, MinExp: minExp}
		of := types[int(kind)%len(types)]
		shape := [][]int64{{}, {9}, {5, 3}, {2, 3, 4}, {2, 2, 2, 3}}[int(kind)/len(types)%5]
		n := of.Size()
		for _, d := range shape {
			n *= d
		}
		s, err := c.Serializer(codec.ChunkSpec{Type: element.Of(of), Shape: shape})
		if err != nil {
			return
		}
		got := make([]byte, n)
		if s.Decode(got, src) != nil {
			return
		}
		encoded, err := s.Encode(nil, got)
		require.NoError(t, err)
		require.LessOrEqual(t, int64(len(encoded)), s.MaxSize)
		require.NoError(t, s.Decode(got, encoded))
	})
}
