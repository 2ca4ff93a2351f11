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

// countVariable is the number of inputs that DecodeMutated changes.
const countVariable = "QUIVER_MUTATED_INPUTS"

// Encoded is an input of a decoder and the size of its output.
type Encoded struct {
	Bytes []byte
	Size  int
}

// DecodeMutated decodes changed copies of valid inputs in batches, and between them the valid
// ones. Where the device and host both accept an input, they must agree. host returns the
// decoding in dst, which has the size of the valid output. It returns how many inputs
// failed, and how many both accepted.
func DecodeMutated(t *testing.T, dev arrowbuf.Device, valid []Encoded, decode func(compress.Batch) ([]compress.Result, error), host func(dst, src []byte) ([]byte, error)) (failed, agreed int64) {
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
				in = Mutate(r, in)
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
