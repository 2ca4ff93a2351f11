package lz4_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	quiver "github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// block returns the block of data. Data without any match is one run of literals.
func block(t *testing.T, data []byte, high bool) []byte {
	t.Helper()
	dst := make([]byte, lz4.CompressBlockBound(len(data)))
	compressBlock := lz4.CompressBlock
	if high {
		compressBlock = func(src, dst []byte, _ []int) (int, error) {
			return lz4.CompressBlockHC(src, dst, lz4.Level9, nil, nil)
		}
	}
	n, err := compressBlock(data, dst, nil)
	require.NoError(t, err)
	if n > 0 {
		return dst[:n]
	}
	rest := len(data) - 15
	if rest < 0 {
		return append([]byte{byte(len(data) << 4)}, data...)
	}
	b := []byte{15 << 4}
	for ; rest >= 255; rest -= 255 {
		b = append(b, 255)
	}
	return append(append(b, byte(rest)), data...)
}

func decodeBatch(b compress.Batch) ([]compress.Result, error) {
	return quiver.Decode(b, compress.DecodeOptions{})
}

// eachWay runs a test of outputs in small pieces, in those of [quiver.Decode], and of one
// piece each.
func eachWay(t *testing.T, test func(t *testing.T)) {
	for name, sizes := range map[string][2]int64{"small pieces": {1 << 10, 0}, "pieces": {16 << 10, 64 << 10}, "one piece": {16 << 10, math.MaxInt64}} {
		t.Run(name, func(t *testing.T) {
			quiver.SetPieces(t, sizes[0], sizes[1])
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

func TestBlocksDecode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var want, inputs [][]byte
	var sizes []int
	for _, n := range []int{0, 1, 14, 15, 16, 270, 5000, 70_000, 600_000} {
		if testing.Short() && n == 600_000 {
			continue
		}
		for _, data := range batchtest.Samples(r, n) {
			for _, high := range []bool{false, true} {
				want, inputs, sizes = append(want, data), append(inputs, block(t, data, high)), append(sizes, n)
			}
		}
	}
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		got, results := batchtest.Run(t, dev, inputs, sizes, decodeBatch)
		for i := range want {
			require.NoError(t, results[i].Err)
			require.True(t, bytes.Equal(want[i], got[i]), "input %d of %d bytes", i, len(want[i]))
		}
	})
}

func TestAnOutputThatIsTooSmallIsAnError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 20, 5000, 100_000} {
		for _, data := range batchtest.Samples(r, n) {
			in := block(t, data, false)
			forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
				_, results := batchtest.Run(t, dev, [][]byte{in, in, in}, []int{n - 1, n, 0}, decodeBatch)
				require.ErrorIs(t, results[0].Err, compress.ErrTooLarge)
				require.NoError(t, results[1].Err)
				require.ErrorIs(t, results[2].Err, compress.ErrTooLarge)
			})
		}
	}
}

func TestBlocksWithoutRightGuessesDecode(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var inputs [][]byte
	var sizes []int
	for _, n := range []int{1, 300, 1000, 20_000, 100_000} {
		in, size := quiver.ShortSequences(r, n)
		inputs, sizes = append(inputs, in), append(sizes, size)
	}
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		got, results := batchtest.Run(t, dev, inputs, sizes, decodeBatch)
		for i, in := range inputs {
			want := make([]byte, sizes[i])
			n, err := lz4.UncompressBlock(in, want)
			require.NoError(t, err)
			require.NoError(t, results[i].Err)
			require.True(t, bytes.Equal(want[:n], got[i]), "input %d", i)
		}
	})
}

// TestACorruptInputIsAnErrorOfItself changes bytes of every second input.
func TestACorruptInputIsAnErrorOfItself(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	rounds := 400
	if testing.Short() {
		rounds = 20
	}
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		failed := 0
		for range rounds {
			var data, inputs [][]byte
			var sizes []int
			for _, d := range batchtest.Samples(r, 1+r.IntN(6000)) {
				in := block(t, d, r.IntN(2) == 0)
				data = append(data, d)
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
			got, results := batchtest.Run(t, dev, inputs, sizes, decodeBatch)
			for i, d := range data {
				if i%2 == 0 {
					require.NoError(t, results[i].Err)
					require.True(t, bytes.Equal(d, got[i]))
					continue
				}
				want := make([]byte, sizes[i])
				n, err := lz4.UncompressBlock(inputs[i], want)
				if results[i].Err == nil && err == nil {
					require.True(t, bytes.Equal(want[:n], got[i]), "%x", inputs[i])
				}
				if results[i].Err != nil {
					failed++
				}
			}
		}
		assert.Greater(t, failed, rounds, "changed inputs that are errors")
	})
}

func TestInvalidBlocksAreErrors(t *testing.T) {
	inputs := map[string][]byte{
		"empty":                     {},
		"literals beyond the end":   {5 << 4, 'a'},
		"length without an end":     {15 << 4, 255},
		"no offset":                 {1 << 4, 'a', 1},
		"offset 0":                  {1 << 4, 'a', 0, 0, 0},
		"offset before the start":   {1 << 4, 'a', 2, 0, 0},
		"match beyond the capacity": {1<<4 | 15, 'a', 1, 0, 255, 255, 1, 0},
		"match at the end":          {1<<4 | 15, 'a', 1, 0, 6},
	}
	forEachDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for name, in := range inputs {
			_, results := batchtest.Run(t, dev, [][]byte{in}, []int{100}, decodeBatch)
			require.Error(t, results[0].Err, name)
		}
		got, results := batchtest.Run(t, dev, [][]byte{{1<<4 | 15, 'a', 1, 0, 255, 255, 1, 0}}, []int{1000}, decodeBatch)
		require.NoError(t, results[0].Err)
		require.Equal(t, bytes.Repeat([]byte("a"), 531), got[0])
		got, results = batchtest.Run(t, dev, [][]byte{{5<<4 | 1, 'a', 'b', 'c', 'd', 'e'}}, []int{5}, decodeBatch)
		require.NoError(t, results[0].Err, "the last sequence has no match, whose length means nothing")
		require.Equal(t, "abcde", string(got[0]))
	})
}

// TestMutatedBlocksFailAlone decodes QUIVER_MUTATED_INPUTS changed blocks.
func TestMutatedBlocksFailAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	var valid []batchtest.Encoded
	rounds := 60
	if testing.Short() {
		rounds = 4
	}
	for round := range rounds {
		n := r.IntN(1 << (3 + round%9))
		if round == 0 {
			n = 150_000
		}
		inputs := append(batchtest.Samples(r, n), batchtest.Adversarial(r, n)...)
		own, _ := encode(t, batchtest.Simulated(t), inputs, quiver.EncodeOptions{})
		for i, in := range inputs {
			valid = append(valid, batchtest.Encoded{Bytes: block(t, in, round%2 == 0), Size: n}, batchtest.Encoded{Bytes: own[i], Size: n})
		}
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		eachWay(t, func(t *testing.T) {
			failed, agreed := batchtest.DecodeMutated(t, dev, valid, decodeBatch, func(dst, src []byte) ([]byte, error) {
				n, err := lz4.UncompressBlock(src, dst)
				if err != nil {
					return nil, err
				}
				return dst[:n], nil
			})
			t.Logf("%d inputs failed, %d were decoded as by the host", failed, agreed)
			require.NotZero(t, failed)
			require.NotZero(t, agreed)
		})
	})
}
