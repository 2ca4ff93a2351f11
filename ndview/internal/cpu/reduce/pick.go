package reduce

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// Pick copies one element of size bytes per result: the one whose step is the position of
// the result. Results and positions are contiguous, in the same order. It is the host
// implementation of kernels/reduce/pick.cu.
func Pick(p *Plan, in, out, positions unsafe.Pointer, size int64) {
	cpu.Parallel(p.Outputs, grain/64, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			from, to := offset(p.Kept[:p.KeptAxes], i)
			step := *(*int64)(unsafe.Add(positions, to/size*8))
			run, _ := offset(p.Run[:p.RunAxes], step/p.Length)
			at := unsafe.Add(in, from+run+step%p.Length*p.Stride)
			copy(unsafe.Slice((*byte)(unsafe.Add(out, to)), size), unsafe.Slice((*byte)(at), size))
		}
	})
}
