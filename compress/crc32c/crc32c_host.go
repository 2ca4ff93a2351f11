package crc32c

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The host implementations of the kernels, for the simulated device.

var table = crc32.MakeTable(crc32.Castagnoli)

var program = launch.Program("compress/crc32c", map[string]cudabuf.HostKernel{
	"quiver_crc32c_begin": func(l *cudabuf.HostLaunch) {
		clear(launch.Structs[uint32](l, 1, l.Int64(2)))
	},
	// The sums of whole pieces: combining parts would not test the kernel's arithmetic.
	"quiver_crc32c_add": func(l *cudabuf.HostLaunch) {
		for _, p := range launch.Structs[batch.Piece](l, 2, l.Int64(3)) {
			sum := launch.Structs[uint32](l, 0, p.Dst+1)
			sum[p.Dst] = crc32.Checksum(l.Memory(l.Pointer(1)+uintptr(p.Src), p.Size), table)
		}
	},
	"quiver_crc32c_store": func(l *cudabuf.HostLaunch) {
		n := l.Int64(3)
		items, sums := launch.Structs[batch.Item](l, 1, n), launch.Structs[uint32](l, 2, n)
		for i, it := range items {
			binary.LittleEndian.PutUint32(l.Memory(l.Pointer(0)+uintptr(it.Dst), Size), sums[i])
		}
	},
	"quiver_crc32c_verify": func(l *cudabuf.HostLaunch) {
		n := l.Int64(4)
		items, sums, outcomes := launch.Structs[batch.Item](l, 1, n), launch.Structs[uint32](l, 2, n), launch.Structs[batch.Outcome](l, 3, n)
		for i, it := range items {
			outcomes[i] = batch.Outcome{Size: it.SrcSize}
			if binary.LittleEndian.Uint32(l.Memory(l.Pointer(0)+uintptr(it.Dst), Size)) != sums[i] {
				outcomes[i].Status = batch.BadChecksum
			}
		}
	},
})
