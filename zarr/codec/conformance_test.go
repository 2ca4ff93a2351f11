package codec_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// conformance are configurations of every codec. The name precedes the configuration,
// which may be empty. Data types default to several. Lossy codecs need not return what
// they encoded.
var conformance = map[string][]struct {
	config string
	types  []string
	lossy  bool
}{
	"bitround":          {{config: `{"keepbits":3}`, types: []string{"float16", "float32", "bfloat16", "int8", "uint64"}, lossy: true}},
	"blosc":             {{config: `{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}`}, {config: `{"cname":"zstd","clevel":1,"shuffle":"bitshuffle","typesize":2}`}, {}},
	"bytes":             {{config: `{"endian":"little"}`}, {config: `{"endian":"big"}`}},
	"cast_value":        {{config: `{"data_type":"float64"}`, types: []string{"int32", "float32", "uint8"}}, {config: `{"data_type":"int64"}`, types: []string{"int8", "uint32"}}},
	"crc32c":            {{}},
	"endian":            {{config: `{"endian":"big"}`}},
	"gzip":              {{}, {config: `{"level":0}`}},
	"packbits":          {{types: []string{"bool", "int8", "uint64", "float16", "complex128"}}, {config: `{"padding_encoding":"first_byte"}`, types: []string{"bool", "uint2", "float6_e3m2fn"}}, {config: `{"padding_encoding":"last_byte"}`, types: []string{"bool", "int4", "float6_e2m3fn"}}},
	"reshape":           {{config: `{"shape":[-1]}`}, {config: `{"shape":[1,-1,1]}`}},
	"scale_offset":      {{config: `{"scale":1}`, types: []string{"float32", "int16", "uint64"}}, {config: `{"offset":1}`, types: []string{"float32"}, lossy: true}},
	"sharding_indexed":  {}, // see TestShardsConform
	"transpose":         {{config: `{"order":"F"}`}, {config: `{"order":"C"}`}},
	"vlen-bytes":        {{types: []string{"bytes"}}},
	"vlen-utf8":         {{types: []string{"string"}}},
	"zarrs.squeeze":     {{}, {config: `{}`}},
	"zstd":              {{}, {config: `{"level":1,"checksum":true}`}},
	"numcodecs.adler32": {{}, {config: `{"location":"end"}`}},
	"numcodecs.astype": {{config: `{"encode_dtype":"<f8","decode_dtype":"<i4"}`, types: []string{"int32"}}, {config: `{"encode_dtype":"<f4","decode_dtype":"<f8"}`, types: []string{"float64"}, lossy: true},
		{config: `{"encode_dtype":"<c16","decode_dtype":"<c8"}`, types: []string{"complex64"}}, {config: `{"encode_dtype":"<f4","decode_dtype":"|b1"}`, types: []string{"bool"}}, {config: `{"encode_dtype":"<c8","decode_dtype":"<f4"}`, types: []string{"float32"}}},
	"numcodecs.base64":     {{}},
	"numcodecs.bitround":   {{config: `{"keepbits":0}`, types: []string{"float64"}, lossy: true}},
	"numcodecs.blosc":      {{}, {config: `{"cname":"blosclz","clevel":9,"shuffle":2,"blocksize":512}`}, {config: `{"cname":"snappy","shuffle":-1}`}, {config: `{"cname":"zlib","shuffle":0}`}, {config: `{"cname":"lz4hc"}`}},
	"numcodecs.bz2":        {{}},
	"numcodecs.categorize": {{config: `{"labels":["x","","yy"]}`, types: []string{"string"}}, {config: `{"labels":["x","","yy"],"dtype":"|O","astype":">u2"}`, types: []string{"string"}}},
	"numcodecs.crc32":      {{}, {config: `{"location":"end"}`}},
	"numcodecs.crc32c":     {{}, {config: `{"location":"start"}`}},
	"numcodecs.delta": {{config: `{"dtype":"<i4"}`, types: []string{"int32", "uint32", "float32"}}, {config: `{"dtype":"|u1","astype":"<u4"}`, types: []string{"uint8"}}, {config: `{"dtype":"<f4"}`, types: []string{"float32"}, lossy: true},
		{config: `{"dtype":"<c8","astype":"<c16"}`, types: []string{"complex64"}, lossy: true}},
	"numcodecs.fixedscaleoffset": {{config: `{"scale":0.5,"offset":10,"dtype":"<f8","astype":"<f8"}`, types: []string{"float64"}, lossy: true}},
	"numcodecs.fletcher32":       {{}},
	"numcodecs.gzip":             {{}},
	"numcodecs.jenkins_lookup3":  {{}, {config: `{"initval":99,"prefix":null}`}},
	"numcodecs.json2":            {{types: []string{"string"}}, {config: `{"encoding":"utf-8","strict":true}`, types: []string{"string"}}},
	"numcodecs.lz4":              {{}, {config: `{"acceleration":10}`}},
	"numcodecs.lzma":             {{}, {config: `{"format":2,"check":-1,"preset":null,"filters":null}`}, {config: `{"check":0,"preset":9}`}, {config: `{"format":3,"filters":[{"id":3,"dist":4},{"id":4611686018427387905,"dict_size":4096}]}`}, {config: `{"format":3,"filters":[{"id":33,"dict_size":4096}]}`}},
	"numcodecs.msgpack2":         {{types: []string{"string", "bytes"}}},
	"numcodecs.packbits":         {{types: []string{"bool"}}},
	"numcodecs.quantize":         {{config: `{"digits":2,"dtype":"<f4","astype":"<f8"}`, types: []string{"float32"}, lossy: true}},
	"numcodecs.shuffle":          {{config: `{"elementsize":1}`}, {config: `{"elementsize":8}`, types: []string{"int64", "complex64", "complex128"}}},
	"numcodecs.vlen-array":       {{config: `{"dtype":"|u1"}`, types: []string{"bytes"}}},
	"numcodecs.vlen-bytes":       {{types: []string{"bytes"}}},
	"numcodecs.vlen-utf8":        {{types: []string{"string"}}},
	"numcodecs.zlib":             {{}, {config: `{"level":9}`}},
	"numcodecs.zstd":             {{}},
}

var everyType = []string{"bool", "int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "complex128", "r24", "int4", "float8_e4m3"}

func TestConformanceCoversEveryCodec(t *testing.T) {
	for _, name := range codec.BuiltinNames() {
		assert.Contains(t, conformance, name)
	}
	assert.Len(t, conformance, len(codec.BuiltinNames()))
}

func TestCodecsConform(t *testing.T) {
	for name, cases := range conformance {
		for i, c := range cases {
			t.Run(fmt.Sprintf("%s %d", name, i), func(t *testing.T) {
				entry := fmt.Sprintf(`{"name":%q}`, name)
				if c.config != "" {
					entry = fmt.Sprintf(`{"name":%q,"configuration":%s}`, name, c.config)
				}
				types := c.types
				if types == nil {
					types = everyType
					if testing.Short() {
						types = []string{"bool", "int32", "complex128", "r24"}
					}
				}
				for _, of := range types {
					list := completeList(t, entry, typeNamed(t, of))
					for _, shape := range [][]int64{{}, {1}, {7}, {3, 4}, {8, 1, 5}} {
						conform(t, list, typeNamed(t, of), shape, c.lossy)
					}
				}
			})
		}
	}
}

func TestShardsConform(t *testing.T) {
	for _, inner := range []string{`["numcodecs.zlib"]`, `[]`, `["crc32c"]`} {
		var then codec.List
		require.NoError(t, json.Unmarshal([]byte(inner), &then))
		for _, location := range []codec.Location{codec.Start, codec.End} {
			list := codec.List{codec.Sharding{ChunkShape: []int64{2, 1}, Codecs: append(codec.List{little}, then...), IndexLocation: location}}
			for _, of := range everyType {
				conform(t, list, typeNamed(t, of), []int64{4, 3}, false)
			}
		}
	}
}

// completeList adds an array-to-bytes codec, which has no effect on the values.
func completeList(t testing.TB, entry string, of element.Type) codec.List {
	t.Helper()
	var one codec.List
	require.NoError(t, json.Unmarshal([]byte("["+entry+"]"), &one), entry)
	raw, err := json.Marshal(one)
	require.NoError(t, err)
	var again codec.List
	require.NoError(t, json.Unmarshal(raw, &again), string(raw))
	require.Equal(t, one, again, "written as %s", raw)
	switch {
	case of == element.String:
		if _, ok := one[0].(codec.BytesCodec); ok {
			return codec.List{codec.VLenUTF8{}, one[0]}
		}
	default:
		switch one[0].(type) {
		case codec.BytesCodec:
			return codec.List{little, one[0]}
		case codec.ArrayCodec:
			return codec.List{one[0], little}
		}
	}
	return one
}

func conform(t *testing.T, list codec.List, of element.Type, shape []int64, lossy bool) {
	t.Helper()
	n := grid.Size(shape)
	chain, err := list.Compile(codec.ChunkSpec{Type: of, Shape: shape, Fill: of.DefaultFill()})
	require.NoError(t, err, "%s %v", of, shape)
	random := rand.New(rand.NewPCG(uint64(n), 11))
	for kind := range 3 {
		var v element.Values
		if of.IsVLen() {
			v = someStrings(t, random, n, shape, kind)
		} else {
			v = values(t, of, someElements(random, of, n, kind), shape)
		}
		conformValues(t, chain, of, v, lossy)
	}
	if len(shape) > 0 { // partial chunks, also empty ones
		for _, rows := range []int64{0, 1} {
			part := append([]int64{rows}, shape[1:]...)
			var v element.Values
			if of.IsVLen() {
				v = someStrings(t, random, grid.Size(part), part, 1)
			} else {
				v = values(t, of, someElements(random, of, grid.Size(part), 1), part)
			}
			enc := encodeKept(t, chain, v)
			require.NotNil(t, enc)
			_, err := decodeAny(chain, of, n, enc)
			require.NoError(t, err)
		}
	}
}

// conformValues checks the round trip of one chunk, and that no damaged chunk panics or
// decodes to another size.
func conformValues(t *testing.T, chain *codec.Chain, of element.Type, v element.Values, lossy bool) {
	t.Helper()
	n := grid.Size(v.Shape())
	enc := encodeKept(t, chain, v)
	got, err := decodeAny(chain, of, n, enc)
	require.NoError(t, err)
	if !lossy {
		require.Equal(t, contents(v), got)
	}
	again, err := decodeAny(chain, of, n, enc)
	require.NoError(t, err)
	require.Equal(t, got, again, "decoding changes neither its input nor its state")
	for cut := 0; cut < len(enc); cut += 1 + len(enc)/50 {
		if short, err := decodeAny(chain, of, n, enc[:cut]); err == nil {
			// Only bytes without meaning may be absent.
			require.Equal(t, got, short, "%d of %d bytes", cut, len(enc))
		}
	}
	longer, err := decodeAny(chain, of, n, append(slices.Clone(enc), 0))
	if err == nil {
		require.Equal(t, got, longer)
	}
	for at := 0; at < len(enc); at += 1 + len(enc)/30 {
		for _, flip := range []byte{1, 0x80, 0xff} {
			bad := slices.Clone(enc)
			bad[at] ^= flip
			_, _ = decodeAny(chain, of, n, bad) // must not panic
		}
	}
}

func encodeKept(t *testing.T, chain *codec.Chain, v element.Values) []byte {
	t.Helper()
	s := codec.GetScratch()
	defer s.Release()
	s.KeepEmpty = true
	enc, err := chain.Encode(s, v)
	require.NoError(t, err)
	return slices.Clone(enc)
}

func decodeAny(chain *codec.Chain, of element.Type, n int64, enc []byte) (any, error) {
	s := codec.GetScratch()
	defer s.Release()
	if of.IsVLen() {
		v, err := chain.DecodeVLen(s, enc)
		if err != nil {
			return nil, err
		}
		return contents(v), nil
	}
	dst := make([]byte, n*of.Size())
	return dst, chain.DecodeFixed(s, dst, enc)
}

func contents(v element.Values) any {
	if v, ok := v.(*element.VLen); ok {
		out := []string{}
		for _, e := range v.Elements() {
			out = append(out, string(e))
		}
		return out
	}
	nd := v.(*ndview.NDBuffer)
	raw := make([]byte, nd.NBytes())
	if err := nd.CopyToHost(raw); err != nil {
		return err
	}
	return raw
}

// someElements returns valid elements: fill values, small numbers or random ones.
func someElements(random *rand.Rand, of element.Type, n int64, kind int) []byte {
	raw := make([]byte, n*of.Size())
	switch kind {
	case 0:
		return raw
	case 1:
		for i := 0; i < len(raw); i += int(of.Size()) {
			raw[i] = byte(random.Uint32() % 2)
		}
	default:
		for i := range raw {
			raw[i] = byte(random.Uint32())
		}
		of.Normalize(raw)
		size := int(of.Size())
		switch of {
		case element.Of(ndview.Float32), element.Of(ndview.Float64), element.Of(ndview.Float16), element.Of(ndview.BFloat16):
			for i := range n { // small integral numbers, which all codecs represent
				of.PutFloat64(raw[int(i)*size:][:size], float64(random.IntN(200)-100))
			}
		}
	}
	return raw
}

func someStrings(t testing.TB, random *rand.Rand, n int64, shape []int64, kind int) *element.VLen {
	t.Helper()
	items := make([]string, n)
	for i := range items {
		if kind > 0 {
			items[i] = []string{"", "x", "yy"}[random.IntN(3)]
		}
	}
	v, err := element.PackVLen(items, shape...)
	require.NoError(t, err)
	return v
}

// Claims of foreign headers are not trusted: memory is bounded by the expected size.
func TestHugeClaimsAllocateLittle(t *testing.T) {
	const limit = 1000
	data := make([]byte, limit)
	encoded := func(c codec.BytesCodec) []byte {
		enc, err := c.Encode(nil, data)
		require.NoError(t, err)
		return enc
	}
	xz := encoded(codec.LZMA{Check: -1, Preset: -1})
	const dictionary = 12 + 4 // stream header; size, flags, filter and its size
	header := xz[12 : 12+4*(int(xz[12])+1)]
	xz[dictionary] = 40 // 4 GB
	binary.LittleEndian.PutUint32(header[len(header)-4:], crc32.ChecksumIEEE(header[:len(header)-4]))
	alone := encoded(codec.LZMA{Format: codec.LZMAFormatAlone, Preset: -1})
	binary.LittleEndian.PutUint32(alone[1:], math.MaxUint32)
	lz4 := encoded(codec.LZ4{})
	binary.LittleEndian.PutUint32(lz4, math.MaxUint32)
	for _, c := range []struct {
		name  string
		codec codec.BytesCodec
		enc   []byte
		valid bool
	}{
		{"xz", codec.LZMA{Check: -1, Preset: -1}, xz, true},
		{"lzma alone", codec.LZMA{Format: codec.LZMAFormatAlone, Preset: -1}, alone, true},
		{"lz4", codec.LZ4{}, lz4, false},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := c.codec.Decode(nil, c.enc, limit)
		runtime.ReadMemStats(&after)
		assert.Equal(t, c.valid, err == nil, "%s: %v", c.name, err)
		if c.valid {
			assert.Equal(t, data, got, c.name)
		}
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20), c.name)
		_, err = c.codec.Decode(nil, encoded(c.codec), limit-1)
		assert.Error(t, err, "%s beyond the limit", c.name)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := codec.LZMA{Format: codec.LZMAFormatAlone}.Decode(nil, alone, math.MaxInt64) // of text, which has any size
	runtime.ReadMemStats(&after)
	assert.NoError(t, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}

func FuzzEveryCodec(f *testing.F) {
	type target struct {
		chain *codec.Chain
		of    element.Type
	}
	var targets []target
	shape := []int64{2, 4}
	for _, name := range codec.BuiltinNames() {
		for _, c := range conformance[name] {
			entry := fmt.Sprintf(`{"name":%q}`, name)
			if c.config != "" {
				entry = fmt.Sprintf(`{"name":%q,"configuration":%s}`, name, c.config)
			}
			of := int32s
			if c.types != nil {
				of = typeNamed(f, c.types[0])
			}
			chain := compile(f, of, shape, completeList(f, entry, of)...)
			random := rand.New(rand.NewPCG(1, 2))
			var v element.Values
			if of.IsVLen() {
				v = someStrings(f, random, 8, shape, 1)
			} else {
				v = values(f, of, someElements(random, of, 8, 1), shape)
			}
			f.Add(len(targets), encode(f, chain, v))
			targets = append(targets, target{chain, of})
		}
	}
	f.Fuzz(func(t *testing.T, which int, enc []byte) {
		if which < 0 || which >= len(targets) {
			return
		}
		got, err := decodeAny(targets[which].chain, targets[which].of, 8, enc)
		if err != nil {
			return
		}
		again, err := decodeAny(targets[which].chain, targets[which].of, 8, enc)
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

func FuzzCodecMetadata(f *testing.F) {
	for name, cases := range conformance {
		for _, c := range cases {
			config := c.config
			if config == "" {
				config = "{}"
			}
			f.Add(fmt.Sprintf(`[{"name":%q,"configuration":%s}]`, name, config))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		var list codec.List
		if json.Unmarshal([]byte(text), &list) != nil {
			return
		}
		raw, err := json.Marshal(list)
		require.NoError(t, err)
		var again codec.List
		require.NoError(t, json.Unmarshal(raw, &again), string(raw))
		for _, of := range []element.Type{int32s, element.String} {
			_, _ = list.Compile(codec.ChunkSpec{Type: of, Shape: []int64{2, 3}, Fill: of.DefaultFill()}) // must not panic
		}
		_, _ = list.V2(2) // must not panic
	})
}
