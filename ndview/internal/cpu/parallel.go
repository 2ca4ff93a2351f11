// Package cpu has the loops that do ndview's work on the host: those of the CPU
// device, which are also what stands in for the kernels on the soft device. It
// knows addresses, strides and units, no arrays.
package cpu

import (
	"runtime"
	"sync"
)

// Parallel calls work with parts of [0, n) that cover it, each of at least grain
// items unless it is the only one, in as many goroutines as Go runs at once. It
// returns when all are done.
func Parallel(n, grain int64, work func(lo, hi int64)) {
	parts := min(int64(runtime.GOMAXPROCS(0)), n/max(grain, 1))
	if parts <= 1 {
		if n > 0 {
			work(0, n)
		}
		return
	}
	var wait sync.WaitGroup
	for p := int64(1); p < parts; p++ {
		wait.Go(func() { work(share(n, p, parts), share(n, p+1, parts)) })
	}
	work(0, share(n, 1, parts))
	wait.Wait()
}

// grain is how many bytes of a result are worth a goroutine.
const grain = 64 << 10

// share is where part p of parts of n items begins.
func share(n, p, parts int64) int64 { return n/parts*p + min(p, n%parts) }
