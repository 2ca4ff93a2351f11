package ndview_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// BenchmarkSmallSoft is BenchmarkSmall on the soft device: the parts of a call
// that are Go, and the loop.
func BenchmarkSmallSoft(b *testing.B) {
	dev := cudatest.NewDevice(b)
	x, y, out := filled(b, dev, ndview.Float32, 64, piece(1, 1)[:64]), filled(b, dev, ndview.Float32, 64, piece(1, 1)[:64]), filled(b, dev, ndview.Float32, 64, piece(1, 1)[:64])
	b.ReportAllocs()
	loop(b, dev, 12*16, func() error { return ndview.Add.Into(out, x, y) })
}
