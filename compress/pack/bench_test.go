package pack_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	"github.com/quiver-gpu/quiver/compress/pack"
)

// BenchmarkCopy copies ranges of equal sizes at odd offsets. The rate is that of the
// copied bytes.
func BenchmarkCopy(b *testing.B) {
	batchtest.BenchmarkDevice(b, func(b *testing.B, dev arrowbuf.Device, total int64) {
		for _, size := range []int64{1000, 64 << 10, 16 << 20} {
			for _, shift := range []int64{0, 5} {
				b.Run(fmt.Sprintf("%d-shift-%d", size, shift), func(b *testing.B) {
					n := total / (size + 16)
					src, err := dev.Alloc(total)
					require.NoError(b, err)
					defer src.Release()
					dst, err := dev.Alloc(total)
					require.NoError(b, err)
					defer dst.Release()
					batch := compress.Batch{Src: src, Dst: dst}
					for i := range n {
						at := i * (size + 15) / 16 * 16
						batch.In = append(batch.In, compress.Range{Offset: at + shift, Length: size})
						batch.Out = append(batch.Out, compress.Range{Offset: at, Length: size})
					}
					b.SetBytes(n * size)
					for b.Loop() {
						if err := pack.Copy(batch); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	})
}
