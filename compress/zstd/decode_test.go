package zstd_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	quiver "github.com/quiver-gpu/quiver/compress/zstd"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// decode decodes a batch of inputs at odd places of one buffer.
func decode(t *testing.T, dev arrowbuf.Device, inputs [][]byte, sizes []int, o compress.DecodeOptions) ([][]byte, []compress.Result) {
	t.Helper()
	return batchtest.Run(t, dev, inputs, sizes, func(b compress.Batch) ([]compress.Result, error) { return quiver.Decode(b, o) })
}

// eachWay runs a test of outputs that a warp writes each, and of those that blocks of
// threads write.
func eachWay(t *testing.T, test func(t *testing.T)) {
	for name, bytes := range map[string]int64{"warps": math.MaxInt64, "windows": -1} {
		t.Run(name, func(t *testing.T) {
			quiver.SetSmallOutput(t, bytes)
			test(t)
		})
	}
}

// forEachDevice is cudatest.ForEachArrowDevice with eachWay.
func forEachDevice(t *testing.T, test func(t *testing.T, dev arrowbuf.Device)) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		eachWay(t, func(t *testing.T) { test(t, dev) })
	})
}

func TestFramesOfEveryLevelDecode(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var want, inputs [][]byte
	var sizes []int
	longest := 300_000
	if testing.Short() {
		longest = 30_000
	}
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault, zstd.SpeedBetterCompression, zstd.SpeedBestCompression} {
		for _, options := range [][]zstd.EOption{{zstd.WithEncoderCRC(false)}, {zstd.WithEncoderCRC(true), zstd.WithSingleSegment(true)}, {zstd.WithAllLitEntropyCompression(true), zstd.WithWindowSize(zstd.MinWindowSize)}} {
			e, err := zstd.NewWriter(nil, append(options, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1))...)
			require.NoError(t, err)
			for _, n := range []int{0, 1, 5, 100, 3000, longest} {
				for _, data := range batchtest.Samples(r, n) {
					want = append(want, data)
					inputs = append(inputs, e.EncodeAll(data, nil))
					sizes = append(sizes, n)
				}
			}
		}
	}
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, o := range []compress.DecodeOptions{{}, {Scratch: 1}} {
			got, results := decode(t, dev, inputs, sizes, o)
			for i := range want {
				require.NoError(t, results[i].Err)
				require.True(t, bytes.Equal(want[i], got[i]), "input %d of %d bytes", i, len(want[i]))
			}
		}
	})
}

// streamedFrame returns a frame without content size, and its content.
func streamedFrame(t *testing.T) (frame, content []byte) {
	t.Helper()
	var stream bytes.Buffer
	w, err := zstd.NewWriter(&stream)
	require.NoError(t, err)
	content = bytes.Repeat([]byte("streamed "), 50_000)
	_, err = w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return stream.Bytes(), content
}

func TestSeveralAndSkippableFramesDecode(t *testing.T) {
	e, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	skippable := append([]byte{0x53, 0x2A, 0x4D, 0x18, 3, 0, 0, 0}, "abc"...)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	one, two := e.EncodeAll([]byte("one one one one one "), nil), e.EncodeAll([]byte("two two two two "), nil)
	stream, streamed := streamedFrame(t)
	cases := []struct{ in, want []byte }{
		{join(skippable, one, skippable, two), []byte("one one one one one two two two two ")},
		{skippable, nil},
		{nil, nil},
		{join(two, two, two), []byte("two two two two two two two two two two two two ")},
		{stream, streamed},
	}
	var inputs [][]byte
	var sizes []int
	for _, c := range cases {
		inputs, sizes = append(inputs, c.in), append(sizes, len(c.want)+10)
	}
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		got, results := decode(t, dev, inputs, sizes, compress.DecodeOptions{})
		for i, c := range cases {
			require.NoError(t, results[i].Err)
			assert.Equal(t, string(c.want), string(got[i]))
		}
	})
}

// TestACorruptInputIsAnErrorOfItself changes bytes of every second input.
func TestACorruptInputIsAnErrorOfItself(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var encoders []*zstd.Encoder
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedBestCompression} {
		for _, crc := range []bool{false, true} {
			e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderCRC(crc), zstd.WithEncoderConcurrency(1))
			require.NoError(t, err)
			encoders = append(encoders, e)
		}
	}
	reference, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(1<<31))
	require.NoError(t, err)
	defer reference.Close()
	rounds := 400
	if testing.Short() {
		rounds = 20
	}
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		failed, checksums := 0, 0
		for range rounds {
			var data, inputs [][]byte
			var sizes []int
			for _, d := range batchtest.Samples(r, 1+r.IntN(6000)) {
				data = append(data, d)
				in := encoders[r.IntN(len(encoders))].EncodeAll(d, nil)
				if len(data)%2 == 0 {
					for range 1 + r.IntN(3) {
						in[r.IntN(len(in))] = byte(r.Uint32())
					}
					if r.IntN(4) == 0 {
						in = in[:r.IntN(len(in))]
					}
				}
				inputs, sizes = append(inputs, in), append(sizes, len(d))
			}
			got, results := decode(t, dev, inputs, sizes, compress.DecodeOptions{})
			for i, d := range data {
				if i%2 == 0 {
					require.NoError(t, results[i].Err)
					require.True(t, bytes.Equal(d, got[i]))
					continue
				}
				want, err := reference.DecodeAll(inputs[i], make([]byte, 0, sizes[i]))
				if results[i].Err == nil && err == nil {
					require.True(t, bytes.Equal(want, got[i]), "%x", inputs[i])
				}
				if results[i].Err != nil {
					failed++
					require.True(t, errors.Is(results[i].Err, compress.ErrCorrupt) || errors.Is(results[i].Err, compress.ErrTooLarge) || errors.Is(results[i].Err, errors.ErrUnsupported), results[i].Err)
					require.Contains(t, results[i].Err.Error(), fmt.Sprintf("zstd.Decode: input %d: ", i))
				}
				if errors.Is(results[i].Err, compress.ErrChecksum) {
					checksums++
				}
			}
		}
		assert.Greater(t, failed, rounds, "changed inputs that are errors")
		assert.NotZero(t, checksums)
	})
}

func TestAnOutputThatIsTooSmallIsAnError(t *testing.T) {
	e, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	in := e.EncodeAll(bytes.Repeat([]byte("quiver"), 100_000), nil)
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		_, results := decode(t, dev, [][]byte{in, in, in}, []int{599_999, 600_000, 0}, compress.DecodeOptions{})
		require.ErrorIs(t, results[0].Err, compress.ErrTooLarge)
		require.NoError(t, results[1].Err)
		require.ErrorIs(t, results[2].Err, compress.ErrTooLarge)
	})
}

// Without content size, only the blocks have the size of a frame. One that is corrupt is not
// too large.
func TestAStreamedFrameDecodesIfItsOutputIsLargeEnough(t *testing.T) {
	in, content := streamedFrame(t)
	corrupt := bytes.Clone(in)
	corrupt[len(corrupt)-9] ^= 0xFF // the last block, before its checksum
	n := len(content)
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		_, results := decode(t, dev, [][]byte{in, in, in, in, corrupt}, []int{n, n - 1, n / 2, 0, n}, compress.DecodeOptions{})
		require.NoError(t, results[0].Err)
		for _, r := range results[1:4] {
			require.ErrorIs(t, r.Err, compress.ErrTooLarge)
		}
		require.ErrorIs(t, results[4].Err, compress.ErrCorrupt)
	})
	for _, limit := range []int{n, n + 1, 10 * n} {
		for _, dst := range [][]byte{nil, make([]byte, n/2)} {
			got, err := quiver.DecodeFrames(dst, in, int64(limit))
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got))
			got, err = quiver.DecodeFrames(dst, slices.Concat(in, in), int64(2*limit))
			require.NoError(t, err)
			require.True(t, bytes.Equal(slices.Concat(content, content), got))
			_, err = quiver.DecodeFrames(dst, corrupt, int64(limit))
			require.ErrorIs(t, err, compress.ErrCorrupt)
		}
	}
	_, err := quiver.DecodeFrames(nil, in, int64(n-1))
	require.ErrorIs(t, err, compress.ErrTooLarge)
}

// TestMatchesOfAnyDistanceDecode repeats bytes at distances of many windows, and at short ones
// over all of a large output.
func TestMatchesOfAnyDistanceDecode(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	size := 5 << 20
	if testing.Short() {
		size = 2 << 20
	}
	far, near := make([]byte, 0, size), make([]byte, size)
	for len(far) < 1_200_000 {
		far = append(far, byte(r.Uint32()))
	}
	for len(far) < size { // at the distances of all parts before
		at := r.IntN(len(far) - 5000)
		far = append(far, far[at:at+20+r.IntN(4000)]...)
	}
	for i := range near {
		if near[i] = byte(i / 70_000); i >= 8 && r.IntN(20) > 0 {
			near[i] = near[i-8]
		}
	}
	var want, inputs [][]byte
	var sizes []int
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedBestCompression} {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
		require.NoError(t, err)
		for _, data := range [][]byte{far, near} {
			want, inputs, sizes = append(want, data), append(inputs, e.EncodeAll(data, nil)), append(sizes, len(data))
		}
	}
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		got, results := decode(t, dev, inputs, sizes, compress.DecodeOptions{})
		for i := range want {
			require.NoError(t, results[i].Err)
			require.True(t, bytes.Equal(want[i], got[i]), "input %d", i)
		}
	})
}

// Windows of 1 KiB, of 2 GiB and an eighth, which libzstd refuses, and of 3.75 TiB.
func TestFramesWithAnyWindowDecode(t *testing.T) {
	var inputs [][]byte
	for _, window := range []byte{0, 21<<3 | 1, 0xFF} {
		inputs = append(inputs, []byte{0x28, 0xB5, 0x2F, 0xFD, 0, window, 5<<3 | 1, 0, 0, 'a', 'r', 'r', 'o', 'w'})
	}
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		got, results := decode(t, dev, inputs, []int{5, 5, 5}, compress.DecodeOptions{})
		for i, in := range inputs {
			require.NoError(t, results[i].Err)
			require.Equal(t, "arrow", string(got[i]))
			out, err := quiver.DecodeFrames(nil, in, 5)
			require.NoError(t, err)
			require.Equal(t, "arrow", string(out))
		}
	})
}

func TestAFrameWithADictionaryIsUnsupported(t *testing.T) {
	in := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x21, 7, 1, 0x09, 0, 0, 'x'}
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		_, results := decode(t, dev, [][]byte{in}, []int{1}, compress.DecodeOptions{})
		require.ErrorIs(t, results[0].Err, errors.ErrUnsupported)
	})
}

func TestABatchIsChecked(t *testing.T) {
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b, err := dev.Alloc(10)
		require.NoError(t, err)
		defer b.Release()
		one := []compress.Range{{Offset: 0, Length: 1}}
		for _, c := range []struct {
			batch compress.Batch
			want  error
		}{
			{compress.Batch{}, arrowbuf.ErrDevice},
			{compress.Batch{Src: b}, arrowbuf.ErrDevice},
			{compress.Batch{Src: b, Dst: b, In: one}, arrowbuf.ErrOutOfRange},
			{compress.Batch{Src: b, Dst: b, In: one, Out: []compress.Range{{Offset: 10, Length: 1}}}, arrowbuf.ErrOutOfRange},
			{compress.Batch{Src: b, Dst: b, In: []compress.Range{{Offset: -1, Length: 1}}, Out: one}, arrowbuf.ErrOutOfRange},
			{compress.Batch{Src: b, Dst: b, In: []compress.Range{{Offset: 0, Length: 1 << 40}}, Out: one}, arrowbuf.ErrOutOfRange},
		} {
			_, err := quiver.Decode(c.batch, compress.DecodeOptions{})
			require.ErrorIs(t, err, c.want)
		}
		results, err := quiver.Decode(compress.Batch{Src: b, Dst: b}, compress.DecodeOptions{})
		require.NoError(t, err)
		require.Empty(t, results)
	})
}

// TestMutatedFramesFailAlone decodes QUIVER_MUTATED_INPUTS changed frames.
func TestMutatedFramesFailAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	var valid []batchtest.Encoded
	for round := range 60 {
		n := r.IntN(1 << (3 + round%9))
		if round == 0 {
			n = 150_000
		}
		inputs := append(batchtest.Samples(r, n), batchtest.Adversarial(r, n)...)
		level := zstd.SpeedFastest + zstd.EncoderLevel(r.IntN(4))
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(round%3 == 0), zstd.WithAllLitEntropyCompression(round%2 == 0))
		require.NoError(t, err)
		own, _ := encode(t, batchtest.Simulated(t), inputs, quiver.EncodeOptions{Checksum: round%4 == 0})
		for i, in := range inputs {
			valid = append(valid, batchtest.Encoded{Bytes: e.EncodeAll(in, nil), Size: n}, batchtest.Encoded{Bytes: own[i], Size: n})
		}
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		eachWay(t, func(t *testing.T) {
			failed, agreed := batchtest.DecodeMutated(t, dev, valid,
				func(b compress.Batch) ([]compress.Result, error) { return quiver.Decode(b, compress.DecodeOptions{}) },
				func(dst, src []byte) ([]byte, error) { return quiver.DecodeFrames(dst, src, int64(len(dst))) })
			t.Logf("%d inputs failed, %d were decoded as by the host", failed, agreed)
			require.NotZero(t, failed)
			require.NotZero(t, agreed)
		})
	})
}
