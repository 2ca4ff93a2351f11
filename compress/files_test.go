package compress_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/zstd"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// folderVariable names the folder of N.raw, N.zst, N.checked.zst and N.lz4.
const folderVariable = "QUIVER_INTEROP_FOLDER"

// TestEncodedFilesAreWritten encodes on each device, and writes the files if the variable
// names a folder; interop/compression.py reads them with other decoders.
func TestEncodedFilesAreWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var inputs [][]byte
	for _, n := range []int{0, 1, 20, 300, 5000, 70_000, 700_000} {
		inputs = append(append(inputs, batchtest.Samples(r, n)...), batchtest.Adversarial(r, n)...)
	}
	encoders := map[string]struct {
		bound  func(int64) int64
		encode func(compress.Batch) ([]compress.Result, error)
	}{
		".zst": {zstd.Bound, func(b compress.Batch) ([]compress.Result, error) { return zstd.Encode(b, zstd.EncodeOptions{Level: 1}) }},
		".checked.zst": {zstd.Bound, func(b compress.Batch) ([]compress.Result, error) {
			return zstd.Encode(b, zstd.EncodeOptions{Level: 1, Checksum: true})
		}},
		".lz4": {lz4.Bound, func(b compress.Batch) ([]compress.Result, error) { return lz4.Encode(b, lz4.EncodeOptions{}) }},
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for ending, e := range encoders {
			sizes := make([]int, len(inputs))
			for i, in := range inputs {
				sizes[i] = int(e.bound(int64(len(in))))
			}
			outputs, results := batchtest.Run(t, arrowbuf.Device(dev), inputs, sizes, e.encode)
			for i, in := range inputs {
				require.NoError(t, results[i].Err)
				folder := os.Getenv(folderVariable)
				if folder == "" {
					continue
				}
				name := filepath.Join(folder, strconv.Itoa(i))
				require.NoError(t, os.WriteFile(name+".raw", in, 0o600))
				require.NoError(t, os.WriteFile(name+ending, outputs[i], 0o600))
			}
		}
	})
}
