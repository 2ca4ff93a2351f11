package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

var compactProgram = launch.Program("index/compact", compactTwins())

// tilesOf are the mask of a launch and the starts of its tiles.
func tilesOf(l *cudabuf.HostLaunch) (mask []byte, starts []int64) {
	n := l.Int64(1)
	return l.Memory(l.Pointer(0), n), cudabuf.Elements[int64](l, l.Pointer(2), cpu.Tiles(n)+1)
}

func compactTwins() map[string]cudabuf.HostKernel {
	twins := map[string]cudabuf.HostKernel{
		"quiver_mask_count": func(l *cudabuf.HostLaunch) {
			n := l.Int64(1)
			cpu.CountTiles(l.Memory(l.Pointer(0), n), cudabuf.Elements[uint32](l, l.Pointer(2), cpu.Tiles(n)))
		},
		"quiver_mask_scan": func(l *cudabuf.HostLaunch) {
			tiles := l.Int64(1)
			launch.MustAlign(l, 0, 16)
			cpu.ScanTiles(cudabuf.Elements[uint32](l, l.Pointer(0), tiles), cudabuf.Elements[int64](l, l.Pointer(2), tiles+1))
		},
		"quiver_true_positions": func(l *cudabuf.HostLaunch) {
			mask, starts := tilesOf(l)
			cpu.TruePositions(mask, starts, cudabuf.Elements[uint64](l, l.Pointer(3), starts[len(starts)-1]))
		},
		"quiver_unravel": func(l *cudabuf.HostLaunch) {
			n, shape := l.Int64(1), launch.Parameters[cShape](l, 2)
			places := cudabuf.Elements[int64](l, l.Pointer(0), n)
			cpu.Unravel(places, shape.Extent[:shape.Axes], cudabuf.Elements[int64](l, l.Pointer(3), n*shape.Axes))
		},
	}
	for _, width := range []int64{1, 2, 4, 8, 16} {
		twins[fmt.Sprintf("quiver_compact_%d", width)] = func(l *cudabuf.HostLaunch) {
			mask, starts := tilesOf(l)
			launch.MustAlign(l, 3, width)
			launch.MustAlign(l, 4, width)
			cpu.Compact(mask, starts, launch.Reached(l, 3, 0, width*int64(len(mask))), launch.Reached(l, 4, 0, width*starts[len(starts)-1]), width)
		}
		twins[fmt.Sprintf("quiver_expand_%d", width)] = func(l *cudabuf.HostLaunch) {
			mask, starts := tilesOf(l)
			step := l.Int64(4)
			launch.MustAlign(l, 3, width)
			launch.MustAlign(l, 5, width)
			values := (starts[len(starts)-1]-1)*step + 1
			cpu.Expand(mask, starts, launch.Reached(l, 3, 0, width*values), step, launch.Reached(l, 5, 0, width*int64(len(mask))), width)
		}
	}
	return twins
}

// cShape is a shape as an argument of a kernel.
type cShape struct {
	Axes   int64
	Extent [32]int64
}

// unravel makes places in a shape, in C order, to what they are along each axis:
// an array of shape [axes, places].
func unravel(places *NDBuffer, shape []int64) (*NDBuffer, error) {
	out, err := Empty(places.Device(), Int64, int64(len(shape)), places.Size())
	if err != nil || out.Size() == 0 {
		return out, err
	}
	if _, ok := places.HostBytes(); ok {
		cpu.Unravel(hostSlice[int64](places), shape, hostSlice[int64](out))
		return out, nil
	}
	c := cShape{Axes: int64(len(shape))}
	if copy(c.Extent[:], shape) < len(shape) {
		err = fmt.Errorf("an array of %d axes, of at most %d: %w", len(shape), len(c.Extent), ErrShape)
	} else {
		err = launch.Items(places.Device(), compactProgram, "quiver_unravel", places.Size(), 1, places.in(), places.Size(), launch.StructOf(&c), out.inOut())
	}
	if err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}
