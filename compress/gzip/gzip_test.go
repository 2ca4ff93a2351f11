package gzip_test

import (
	"bytes"
	stdgzip "compress/gzip"
	stdzlib "compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/gzip"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// samples are inputs that use each kind of block and match.
func samples() map[string][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	noise, text, floats, near, skewed := make([]byte, 100_000), make([]byte, 0, 100_000), make([]byte, 120_000), make([]byte, 0, 100_000), make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
		skewed[i] = byte(math.Abs(random.NormFloat64()) * 1.5)
	}
	words := strings.Fields("chunk shard array index codec grid value store of the a and is in which")
	for len(text) < 90_000 {
		text = append(append(text, words[random.IntN(len(words))]...), ' ')
	}
	for i := 0; i < len(floats); i += 4 {
		x := float32(math.Round(64*(15+10*math.Sin(float64(i)/20000)+random.NormFloat64()))) / 64
		binary.LittleEndian.PutUint32(floats[i:], math.Float32bits(x))
	}
	for period := 1; period < 40; period++ { // matches of every short distance and many lengths
		for range 15 {
			for j := range 3 + random.IntN(300) {
				near = append(near, noise[100*period+j%period])
			}
			near = append(near, byte(random.Uint32()))
		}
	}
	return map[string][]byte{
		"empty": nil, "byte": {7}, "zeros": make([]byte, 1<<18), "noise": noise, "text": text, "floats": floats, "near": near, "skewed": skewed,
		"short": []byte("abcabcabcabcabcabcabcd"),
	}
}

func TestDecodingEqualsTheInputOfEveryLevel(t *testing.T) {
	levels := []int{stdgzip.HuffmanOnly, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	if testing.Short() {
		levels = []int{stdgzip.HuffmanOnly, 0, 1, 6}
	}
	for name, data := range samples() {
		for _, level := range levels {
			var out bytes.Buffer
			w, err := stdgzip.NewWriterLevel(&out, level)
			require.NoError(t, err)
			_, err = w.Write(data)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			check := func(enc []byte, decode func(dst, src []byte, limit int64) ([]byte, error)) {
				t.Helper()
				for _, dst := range [][]byte{nil, make([]byte, len(data)), make([]byte, 100, 2*len(data)+1000)} {
					got, err := decode(dst, enc, int64(len(data)))
					require.NoError(t, err, "%s, level %d", name, level)
					require.True(t, bytes.Equal(data, got), "%s, level %d", name, level)
				}
				got, err := decode(nil, enc, math.MaxInt64)
				require.NoError(t, err)
				require.True(t, bytes.Equal(data, got))
				if len(data) > 0 {
					_, err = decode(nil, enc, int64(len(data))-1)
					require.ErrorContains(t, err, "more than")
				}
			}
			check(out.Bytes(), gzip.DecodeMembers)
			if level < 0 {
				continue
			}
			enc, err := gzip.EncodeMember([]byte("before"), data, level)
			require.NoError(t, err)
			require.Equal(t, "before", string(enc[:6]))
			check(enc[6:], gzip.DecodeMembers)
			assert.Equal(t, data, standard(t, enc[6:]))
			enc, err = gzip.EncodeZlib(nil, data, level)
			require.NoError(t, err)
			check(enc, gzip.DecodeZlib)
			r, err := stdzlib.NewReader(bytes.NewReader(enc))
			require.NoError(t, err)
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, got))
		}
	}
}

// standard returns what compress/gzip decodes.
func standard(t *testing.T, enc []byte) []byte {
	t.Helper()
	r, err := stdgzip.NewReader(bytes.NewReader(enc))
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	if len(got) == 0 {
		return nil
	}
	return got
}

func TestDecodeWritesNothingBeyondTheLimit(t *testing.T) {
	for name, data := range samples() {
		enc, err := gzip.EncodeMember(nil, data, 6)
		require.NoError(t, err)
		memory := bytes.Repeat([]byte{0xa5}, len(data)+1000)
		_, err = gzip.DecodeMembers(memory[:0], enc, int64(len(data)))
		require.NoError(t, err)
		assert.Equal(t, bytes.Repeat([]byte{0xa5}, 1000), memory[len(data):], name)
	}
}

func TestMembersAndHeadersOfEveryForm(t *testing.T) {
	var all bytes.Buffer
	var want []byte
	for i, text := range []string{"first", "", "third, third, third"} {
		w := stdgzip.NewWriter(&all)
		if i > 0 {
			w.Name, w.Comment, w.Extra = "name", "comment", []byte{1, 2, 3}
		}
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		want = append(want, text...)
	}
	got, err := gzip.DecodeMembers(nil, all.Bytes(), 1000)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	for n := range all.Len() {
		if _, err := gzip.DecodeMembers(nil, all.Bytes()[:n], 1000); err == nil {
			assert.NotEqual(t, want, standard(t, all.Bytes()[:n]), "%d bytes are whole members", n)
		} else {
			assert.ErrorIs(t, err, gzip.ErrCorrupt, "%d bytes", n)
		}
	}
	_, err = gzip.DecodeMembers(nil, append(all.Bytes(), 0), 1000)
	assert.ErrorIs(t, err, gzip.ErrCorrupt)
	for _, flip := range []int{0, 1, 2, all.Len() - 1, all.Len() - 5} {
		bad := bytes.Clone(all.Bytes())
		bad[flip] ^= 1
		_, err := gzip.DecodeMembers(nil, bad, 1000)
		assert.ErrorIs(t, err, gzip.ErrCorrupt, "byte %d", flip)
	}
}

func TestZlibErrorsAreNamed(t *testing.T) {
	enc, err := gzip.EncodeZlib(nil, []byte("some text"), 9)
	require.NoError(t, err)
	for n := range len(enc) {
		_, err := gzip.DecodeZlib(nil, enc[:n], 100)
		assert.ErrorIs(t, err, gzip.ErrCorrupt)
	}
	_, err = gzip.DecodeZlib(nil, append(bytes.Clone(enc), 1), 100)
	assert.ErrorContains(t, err, "after the stream")
	_, err = gzip.DecodeZlib(nil, []byte{0x78, 0xbb, 0, 0, 0, 0}, 100)
	assert.ErrorIs(t, err, errors.ErrUnsupported, "preset dictionary")
	for _, level := range []int{-1, 10} {
		_, err = gzip.EncodeZlib(nil, nil, level)
		assert.Error(t, err)
		_, err = gzip.EncodeMember(nil, nil, level)
		assert.Error(t, err)
	}
}

func TestAPrefixDecodesToItsEnd(t *testing.T) {
	data := bytes.Repeat([]byte("some text "), 1000)
	member, err := gzip.EncodeMember(nil, data, 5)
	require.NoError(t, err)
	stream, err := gzip.EncodeZlib(nil, data, 5)
	require.NoError(t, err)
	deflate := stream[2 : len(stream)-4]
	for f, enc := range map[gzip.Format][]byte{gzip.Gzip: member, gzip.Zlib: stream, gzip.Deflate: deflate} {
		for _, more := range [][]byte{nil, {0}, member, []byte("more")} {
			got, n, err := gzip.DecodePrefix(make([]byte, 3, 100), append(bytes.Clone(enc), more...), f, int64(len(data)))
			require.NoError(t, err)
			assert.Equal(t, len(enc), n)
			assert.Equal(t, data, got)
		}
		_, _, err := gzip.DecodePrefix(nil, enc[:len(enc)-1], f, 1<<20)
		assert.ErrorIs(t, err, gzip.ErrCorrupt)
		_, _, err = gzip.DecodePrefix(nil, enc, f, int64(len(data))-1)
		assert.ErrorIs(t, err, compress.ErrTooLarge)
	}
	_, _, err = gzip.DecodePrefix(nil, member, gzip.Format(9), 10)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}

// FuzzDecode compares with compress/gzip: both accept the input with equal results, or
// neither does.
func FuzzDecode(f *testing.F) {
	for _, data := range samples() {
		data = data[:min(len(data), 5000)]
		for _, level := range []int{stdgzip.HuffmanOnly, 0, 1, 6} {
			var out bytes.Buffer
			w, _ := stdgzip.NewWriterLevel(&out, level)
			_, _ = w.Write(data)
			_ = w.Close()
			f.Add(out.Bytes(), uint16(len(data)))
		}
	}
	f.Fuzz(func(t *testing.T, enc []byte, limit uint16) {
		compare(t, enc, int64(limit))
	})
}

func compare(t *testing.T, enc []byte, limit int64) {
	got, err := gzip.DecodeMembers(nil, enc, limit)
	var want []byte
	r, failed := stdgzip.NewReader(bytes.NewReader(enc))
	if failed == nil {
		want, failed = io.ReadAll(io.LimitReader(r, limit+1))
	}
	if failed == nil && int64(len(want)) > limit {
		require.Error(t, err, "beyond the limit")
		return
	}
	if failed != nil {
		require.Error(t, err, "compress/gzip: %v", failed)
		return
	}
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}
