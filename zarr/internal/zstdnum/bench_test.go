package zstdnum_test

import (
	"fmt"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/quiver-gpu/quiver/zarr/internal/zstdnum"
	"github.com/stretchr/testify/require"
)

func BenchmarkEncode(b *testing.B) {
	general, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1))
	require.NoError(b, err)
	for _, name := range []string{"rising", "small", "middle", "cents", "floats"} {
		for _, width := range []int{2, 4, 8} {
			src := column(columns[name], 1<<20, width)
			var dst []byte
			for what, encode := range map[string]func(){
				"ours":    func() { dst = zstdnum.Encode(dst[:0], src, width) },
				"general": func() { dst = general.EncodeAll(src, dst[:0]) },
			} {
				b.Run(fmt.Sprintf("%s %d %s", name, width, what), func(b *testing.B) {
					b.SetBytes(int64(len(src)))
					for b.Loop() {
						encode()
					}
					b.ReportMetric(float64(len(dst))/float64(len(src)), "size")
				})
			}
		}
	}
}
