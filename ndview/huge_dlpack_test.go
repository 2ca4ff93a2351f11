//go:build linux || darwin

package ndview_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestDLPackReachesBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 5, func(t *testing.T, dev arrowbuf.Device) {
		a := periodic(t, dev, block, hugeExtent)
		for _, legacy := range []bool{false, true} {
			turned := view(t)(view(t)(a.Reshape(hugeRows, hugeColumns)).Transpose())
			c := consume(t, index(t, turned, ndview.SpanStep(-1, 0, -2)), ndview.DLPackOptions{Legacy: legacy})
			assert.Equal(t, []int64{hugeColumns / 2, hugeRows}, c.int64s(c.tensor.Shape))
			assert.Equal(t, []int64{-2, hugeColumns}, c.int64s(c.tensor.Strides))
			from := ndview.FromDLPack
			if legacy {
				from = ndview.FromLegacyDLPack
			}
			back := view(t)(from(dev, c.self))
			last := index(t, back, ndview.Span(0, 1000), ndview.At(-1))
			for i, v := range hostOf[uint8](t, last) {
				assert.Equal(t, block[(hugeExtent-1-2*i)%period], v)
			}
		}
	})
}
