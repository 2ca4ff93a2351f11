//go:build !noasm

package equal

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func same32(x, y unsafe.Pointer, blocks int64) bool

//go:noescape
func same64(x, y unsafe.Pointer, blocks int64) bool

//go:noescape
func sameHalves(x, y unsafe.Pointer, blocks int64, infinity uint64) bool

//go:noescape
func sameTimes(x, y unsafe.Pointer, blocks int64) bool

// newPrefix makes a prefix of an assembly function.
func newPrefix(loop func(x, y unsafe.Pointer, blocks int64) bool) prefix {
	return func(x, y unsafe.Pointer, bytes int64) int64 {
		const block = 64
		if blocks := bytes / block; blocks > 0 && cpu.X86.HasAVX2 && loop(x, y, blocks) {
			return blocks * block
		}
		return 0
	}
}

func halves(infinity uint64) prefix {
	return newPrefix(func(x, y unsafe.Pointer, blocks int64) bool {
		return sameHalves(x, y, blocks, infinity*0x0001000100010001)
	})
}

var singles, doubles, ticks = newPrefix(same32), newPrefix(same64), newPrefix(sameTimes)
