package batchtest

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
)

// countVariable is the number of inputs that Mutate changes.
const countVariable = "QUIVER_MUTATED_FRAMES"

// Encoded is an input of a decoder and the size of its output.
type Encoded struct {
	Bytes []byte
	Size  int
}

// Mutate decodes changed copies of valid inputs in batches, and between them the valid
// ones. Where the device and host both accept an input, they must agree. host returns the
// decoding in dst, which has the size of the valid output. Mutate returns how many inputs
// failed, and how many both accepted.
func Mutate(t *testing.T, dev arrowbuf.Device, valid []Encoded, decode func(compress.Batch) ([]compress.Result, error), host func(dst, src []byte) ([]byte, error)) (failed, agreed int64) {
	t.Helper()
	const perBatch = 20_000
	count := 4000
	if testing.Short() {
		count = 500
	}
	if v := os.Getenv(countVariable); v != "" {
		var err error
		count, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	r := rand.New(rand.NewPCG(uint64(count), 13))
	var refused, same atomic.Int64
	for done := 0; done < count; done += perBatch {
		var inputs [][]byte
		var sizes []int
		for i := range min(perBatch, count-done) {
			v := valid[r.IntN(len(valid))]
			in := v.Bytes
			if i%50 > 0 {
				in = mutate(r, in)
			}
			inputs, sizes = append(inputs, in), append(sizes, v.Size)
		}
		t.Run("batch", func(t *testing.T) { // which releases its buffers
			got, results := Run(t, dev, inputs, sizes, decode)
			wrong := make([]bool, len(inputs))
			batch.ForEach(int64(len(inputs)), func(i int64) {
				want, err := host(make([]byte, sizes[i]), inputs[i])
				switch {
				case results[i].Err != nil:
					refused.Add(1)
					wrong[i] = i%50 == 0
				case err == nil:
					same.Add(1)
					wrong[i] = !bytes.Equal(want, got[i])
				default:
					wrong[i] = i%50 == 0
				}
			})
			for i, bad := range wrong {
				require.False(t, bad, "input %x of an output of %d bytes: %v", inputs[i], sizes[i], results[i].Err)
			}
		})
	}
	return refused.Load(), same.Load()
}

// mutate returns a changed copy: bytes replaced, bits flipped, parts repeated or removed.
func mutate(r *rand.Rand, in []byte) []byte {
	in = bytes.Clone(in)
	for range 1 + r.IntN(3) {
		if len(in) == 0 {
			return in
		}
		at := r.IntN(len(in))
		if r.IntN(2) == 0 {
			at = r.IntN(min(len(in), 40)) // headers and tables
		}
		end := at + r.IntN(min(len(in)-at, 30)+1)
		switch r.IntN(8) {
		case 0:
			in = append(in[:at:at], in[end:]...)
		case 1:
			in = append(in[:end:end], in[at:]...)
		case 2:
			in = in[:at]
		case 3, 4:
			in[at] ^= 1 << r.IntN(8)
		case 5:
			in[at] = []byte{0, 0xFF, 0x80, 0x7F}[r.IntN(4)]
		default:
			in[at] = byte(r.Uint32())
		}
	}
	return in
}
