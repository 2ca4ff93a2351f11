package ndview_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// BenchmarkCopyKernels measures every kernel that can do each permuted copy of
// BenchmarkArray, on a GPU. Names are BenchmarkCopyKernels/CASE/KERNEL. The rules of
// internal/stridedcopy, which choose a kernel, are fitted to its record.
func BenchmarkCopyKernels(b *testing.B) {
	if !cudatest.OnGPU() {
		b.Skip("compares kernels on a GPU")
	}
	driver, err := cudabuf.Open()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, driver.Close()) })
	dev, err := driver.Device(0)
	require.NoError(b, err)
	for _, name := range casesOf("cuda") {
		if !strings.HasPrefix(name, "permute/") && !strings.HasPrefix(name, "arbitrary/") {
			continue
		}
		b.Run(name, func(b *testing.B) {
			s := caseOf(b, dev, name)
			src, dst := s.permuted()
			want := s.empty(s.parts[1], dst.Shape()...)
			require.NoError(b, want.CopyFrom(src))
			candidates, err := ndview.CopyCandidates(dst, src)
			require.NoError(b, err)
			for _, c := range candidates {
				b.Run(c.Kernel, func(b *testing.B) {
					require.NoError(b, dst.Zero())
					require.NoError(b, c.Run(), "the first launch loads the kernel")
					require.NoError(b, holds(dst.Equal(want)))
					b.ResetTimer()
					for range b.N {
						if err := c.Run(); err != nil {
							b.Fatal(err)
						}
					}
					require.NoError(b, dev.Synchronize())
				})
			}
		})
	}
}
