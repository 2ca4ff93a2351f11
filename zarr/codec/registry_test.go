package codec_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leading writes a checksum before the data.
type leading struct{}

func (leading) Name() string       { return "test.leading" }
func (leading) Configuration() any { return nil }

func (leading) Encode(dst, src []byte) ([]byte, error) {
	return append(binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(src)), src...), nil
}

func (leading) Decode(_, src []byte, limit int64) ([]byte, error) {
	if len(src) < 4 || int64(len(src)-4) > limit {
		return nil, errors.New("wrong size")
	}
	if crc32.ChecksumIEEE(src[4:]) != binary.LittleEndian.Uint32(src) {
		return nil, errors.New("wrong checksum")
	}
	return src[4:], nil
}

// negate is an array-to-array codec of int32 elements. It drops an axis of length 1.
type negate struct{}

func (negate) Name() string       { return "test.negate" }
func (negate) Configuration() any { return map[string]int{"version": 1} }

func (negate) Transform(in codec.ChunkSpec) (codec.Transform, error) {
	if in.Type != int32s || in.Shape[0] != 1 {
		return codec.Transform{}, fmt.Errorf("cannot encode %s %v", in.Type, in.Shape)
	}
	change := func(dst, src []byte) error {
		for i := 0; i < len(src); i += 4 {
			binary.LittleEndian.PutUint32(dst[i:], -binary.LittleEndian.Uint32(src[i:]))
		}
		return nil
	}
	out := codec.ChunkSpec{Type: int32s, Shape: in.Shape[1:], Fill: make([]byte, 4)}
	return codec.Transform{Out: out, Encode: change, Decode: change}, change(out.Fill, in.Fill)
}

// text writes integers as decimal digits.
type text struct{}

func (text) Name() string       { return "test.text" }
func (text) Configuration() any { return nil }

func (text) Serializer(in codec.ChunkSpec) (codec.Serializer, error) {
	return codec.Serializer{
		MaxSize: 1000,
		Encode: func(dst, src []byte) ([]byte, error) {
			for i := 0; i < len(src); i += 4 {
				dst = fmt.Appendf(dst, "%d ", int32(binary.LittleEndian.Uint32(src[i:])))
			}
			return dst, nil
		},
		Decode: func(dst, src []byte) error {
			if len(src) == 0 || src[len(src)-1] != ' ' {
				return errors.New("no space at the end")
			}
			values := strings.Fields(string(src))
			if len(values) != len(dst)/4 {
				return fmt.Errorf("%d values, want %d", len(values), len(dst)/4)
			}
			for i, digits := range values {
				n, err := strconv.ParseInt(digits, 10, 32)
				if err != nil {
					return err
				}
				binary.LittleEndian.PutUint32(dst[4*i:], uint32(n))
			}
			return nil
		},
	}, nil
}

func init() {
	for _, c := range []codec.Codec{leading{}, negate{}, text{}} {
		err := codec.Register(c.Name(), func(json.RawMessage) (codec.Codec, error) { return c, nil })
		if err != nil {
			panic(err)
		}
	}
}

func TestRegisteredCodecsOfEachKindEncode(t *testing.T) {
	var list codec.List
	const metadata = `[{"name":"test.negate","configuration":{"version":1}},{"name":"test.text"},{"name":"test.leading"}]`
	require.NoError(t, json.Unmarshal([]byte(metadata), &list))
	again, err := json.Marshal(list)
	require.NoError(t, err)
	assert.JSONEq(t, metadata, string(again))
	chain := compile(t, int32s, []int64{1, 4}, list...)
	enc := encode(t, chain, array(t, []int32{1, -2, 3, 4}, 1, 4))
	assert.Equal(t, "-1 2 -3 -4 ", string(enc[4:]))
	raw, err := decode(chain, 16, enc)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 0, 0, 0, 254, 255, 255, 255, 3, 0, 0, 0, 4, 0, 0, 0}, raw)
	assert.Equal(t, "-7 0 0 0 ", string(encode(t, chain, array(t, []int32{7}, 1, 1))[4:]), "a partial chunk")
	s := codec.GetScratch()
	defer s.Release()
	empty, err := chain.Encode(s, array(t, make([]int32, 4), 1, 4))
	require.NoError(t, err)
	assert.Nil(t, empty)
	for cut := range enc {
		_, err := decode(chain, 16, enc[:cut])
		assert.Error(t, err, cut)
	}
	_, err = codec.List{negate{}, text{}}.Compile(codec.ChunkSpec{Type: int32s, Shape: []int64{2}, Fill: make([]byte, 4)})
	assert.ErrorContains(t, err, `"test.negate": cannot encode int32 [2]`)
}

func TestArrayCodecTransformsFillValueOfShards(t *testing.T) {
	chunk := codec.ChunkSpec{Type: int32s, Shape: []int64{1, 4}, Fill: []byte{5, 0, 0, 0}}
	inner := codec.Sharding{ChunkShape: []int64{2}, Codecs: codec.List{little}}
	chain, err := codec.List{negate{}, inner}.Compile(chunk)
	require.NoError(t, err)
	enc := encode(t, chain, array(t, []int32{5, 5, 1, 2}, 1, 4))
	assert.Len(t, enc, 8+36, "the first inner chunk is missing")
	raw, err := decode(chain, 16, enc)
	require.NoError(t, err)
	assert.Equal(t, []byte{5, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0}, raw)
}

// sum stores partial sums, so that other chunks than the empty one encode to fill values.
type sum struct{ negate }

func (sum) Transform(in codec.ChunkSpec) (codec.Transform, error) {
	each := func(dst, src []byte, step func(last, src, out uint32) (value, next uint32)) {
		last := uint32(0)
		for i := 0; i < len(src); i += 4 {
			n := binary.LittleEndian.Uint32(src[i:])
			var out uint32
			out, last = step(last, n, 0)
			binary.LittleEndian.PutUint32(dst[i:], out)
		}
	}
	return codec.Transform{Out: in,
		Encode: func(dst, src []byte) error {
			each(dst, src, func(last, n, _ uint32) (uint32, uint32) { return last + n, last + n })
			return nil
		},
		Decode: func(dst, src []byte) error {
			each(dst, src, func(last, n, _ uint32) (uint32, uint32) { return n - last, n })
			return nil
		},
	}, nil
}

func TestOnlyChunksOfFillValuesAreEmpty(t *testing.T) {
	for _, last := range []codec.Codec{little, text{}, codec.Sharding{ChunkShape: []int64{2}, Codecs: codec.List{little}}} {
		chunk := codec.ChunkSpec{Type: int32s, Shape: []int64{4}, Fill: []byte{5, 0, 0, 0}}
		chain, err := codec.List{sum{}, last}.Compile(chunk)
		require.NoError(t, err)
		enc := encode(t, chain, array(t, []int32{5, 0, 0, 0}, 4)) // encodes to 5, 5, 5, 5
		require.NotNil(t, enc, last.Name())
		raw, err := decode(chain, 16, enc)
		require.NoError(t, err)
		assert.Equal(t, []byte{5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, raw, last.Name())
		s := codec.GetScratch()
		empty, err := chain.Encode(s, array(t, []int32{5, 5, 5, 5}, 4))
		s.Release()
		require.NoError(t, err)
		assert.Nil(t, empty, last.Name())
	}
}

func TestTransposeAfterAnotherArrayCodec(t *testing.T) {
	chain := compile(t, int32s, []int64{1, 2, 3}, negate{}, codec.Transpose{Order: []int{1, 0}}, text{})
	enc := encode(t, chain, array(t, []int32{1, 2, 3, 4, 5, 6}, 1, 2, 3))
	assert.Equal(t, "-1 -4 -2 -5 -3 -6 ", string(enc))
	raw, err := decode(chain, 24, enc)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0}, raw)
}

func TestRegisterRejectsTakenNames(t *testing.T) {
	parse := func(json.RawMessage) (codec.Codec, error) { return leading{}, nil }
	for _, name := range []string{"zstd", "bytes", "test.leading", ""} {
		assert.ErrorContains(t, codec.Register(name, parse), "codec.Register", name)
	}
	assert.Error(t, codec.Register("test.nil", nil))
}

func TestUnknownCodecsAreUnsupported(t *testing.T) {
	var list codec.List
	err := json.Unmarshal([]byte(`[{"name":"test.unknown"}]`), &list)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorContains(t, err, "test.unknown")
}

func TestCodecsOfNoKindAreErrors(t *testing.T) {
	require.NoError(t, codec.Register("test.kindless", func(json.RawMessage) (codec.Codec, error) { return kindless{}, nil }))
	require.NoError(t, codec.Register("test.absent", func(json.RawMessage) (codec.Codec, error) { return nil, nil }))
	var list codec.List
	assert.ErrorContains(t, json.Unmarshal([]byte(`["test.kindless"]`), &list), "want an ArrayCodec")
	assert.ErrorContains(t, json.Unmarshal([]byte(`["test.absent"]`), &list), "nil")
	_, err := codec.List{kindless{}}.Compile(codec.ChunkSpec{Type: int8s, Shape: []int64{1}, Fill: []byte{0}})
	assert.ErrorContains(t, err, "want an ArrayCodec")
	_, err = codec.List{nil}.Compile(codec.ChunkSpec{Type: int8s, Shape: []int64{1}, Fill: []byte{0}})
	assert.ErrorContains(t, err, "nil")
}

type kindless struct{}

func (kindless) Name() string       { return "test.kindless" }
func (kindless) Configuration() any { return nil }

func ExampleRegister() {
	// invert is a bytes-to-bytes codec, which flips all bits.
	parse := func(json.RawMessage) (codec.Codec, error) { return invert{}, nil }
	if err := codec.Register("example.invert", parse); err != nil {
		fmt.Println(err)
		return
	}
	var list codec.List
	if err := json.Unmarshal([]byte(`[{"name":"bytes"},{"name":"example.invert"}]`), &list); err != nil {
		fmt.Println(err)
		return
	}
	chain, err := list.Compile(codec.ChunkSpec{Type: element.Of(ndview.Uint8), Shape: []int64{3}, Fill: []byte{0}})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, _ := ndview.FromHost(arrowbuf.CPU(), ndview.Uint8, []uint8{1, 2, 3}, 3)
	defer v.Release()
	s := codec.GetScratch()
	defer s.Release()
	enc, _ := chain.Encode(s, v)
	fmt.Printf("%x", enc)
	// Output: fefdfc
}

type invert struct{}

func (invert) Name() string       { return "example.invert" }
func (invert) Configuration() any { return nil }

func (invert) Encode(dst, src []byte) ([]byte, error) {
	for _, b := range src {
		dst = append(dst, ^b)
	}
	return dst, nil
}

func (i invert) Decode(dst, src []byte, limit int64) ([]byte, error) {
	if int64(len(src)) > limit {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(src), limit)
	}
	return i.Encode(dst[:0], src)
}
