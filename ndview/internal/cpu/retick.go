package cpu

import (
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

// Retick converts n times to other ticks. It sets bad to 1 if there is one that
// those cannot count.
func Retick(dst, src unsafe.Pointer, n int64, c *tick.Conversion, bad *uint32) {
	Parallel(n, grain/8, func(lo, hi int64) {
		from := unsafe.Slice((*int64)(src), n)[lo:hi]
		to := unsafe.Slice((*int64)(dst), n)[lo:hi]
		for i, v := range from {
			count, ok := c.Of(v)
			if !ok {
				atomic.StoreUint32(bad, 1)
			}
			to[i] = count
		}
	})
}
