package codec

import (
	"bytes"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// filledItem is the struct Item of kernels/compress/filled.cu.
type filledItem struct{ Offset, Size, Pattern, Period int64 }

const (
	filledWord = 16 // bytes that the kernel compares at a time
	// filledBlocks is the number of blocks that share an item.
	filledBlocks = 16
)

var filledProgram = launch.Program("compress/filled", map[string]cudabuf.HostKernel{"quiver_filled": filledHostKernel})

func filledHostKernel(l *cudabuf.HostLaunch) {
	n := int64(l.Grid.X)
	items := launch.Structs[filledItem](l, 1, n)
	differs := launch.Structs[uint32](l, 3, n)
	var data, patterns int64
	for _, it := range items {
		data, patterns = max(data, it.Offset+it.Size), max(patterns, it.Pattern+it.Period)
	}
	all, fills := l.Memory(l.Pointer(0), data), l.Memory(l.Pointer(2), patterns)
	for i, it := range items {
		pattern := fills[it.Pattern:][:it.Period]
		for raw := all[it.Offset:][:it.Size]; len(raw) > 0; raw = raw[min(it.Period, int64(len(raw))):] {
			if !bytes.Equal(raw[:min(it.Period, int64(len(raw)))], pattern[:min(it.Period, int64(len(raw)))]) {
				differs[i] = 1
			}
		}
	}
}

// findFilled reports which ranges of a buffer repeat their fill value. They begin at
// multiples of batchAlignment.
func findFilled(dev *cudabuf.Device, buf arrowbuf.Buffer, items []filledItem, fills [][]byte) ([]bool, error) {
	// Chunks of one array have one pattern.
	var patterns []byte
	known := map[string]filledItem{}
	for i, fill := range fills {
		p, ok := known[string(fill)]
		if !ok {
			p = filledItem{Pattern: int64(len(patterns)), Period: int64(len(fill))}
			for p.Period%filledWord != 0 {
				p.Period += int64(len(fill))
			}
			patterns = append(patterns, bytes.Repeat(fill, int(p.Period)/len(fill))...)
			known[string(fill)] = p
		}
		items[i].Pattern, items[i].Period = p.Pattern, p.Period
	}
	n := len(items)
	itemBytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(items))), n*int(unsafe.Sizeof(filledItem{})))
	// One copy brings items, patterns and zeros for the results.
	head := append(bytes.Clone(itemBytes), patterns...)
	differsAt := int64(len(head))
	memory, err := dev.FromHost(append(head, make([]byte, 4*n)...))
	if err != nil {
		return nil, err
	}
	defer memory.Release()
	err = launch.Queue(dev, filledProgram, "quiver_filled", cudabuf.Dim3{X: uint32(n), Y: filledBlocks}, cudabuf.Dim3{X: launch.Threads},
		launch.In(buf, 0), launch.In(memory, 0), launch.In(memory, int64(len(itemBytes))), launch.InOut(memory, differsAt))
	if err != nil {
		return nil, err
	}
	differs := make([]byte, 4*n)
	if _, err := memory.CopyToHost(differs, differsAt); err != nil {
		return nil, err
	}
	filled := make([]bool, n)
	for i := range filled {
		filled[i] = differs[4*i] == 0
	}
	return filled, nil
}
