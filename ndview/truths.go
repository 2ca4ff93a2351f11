package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// truths are a mask's elements in C order, with the sums that tell where each
// true one goes.
type truths struct {
	mask   *NDBuffer // bool, gapless
	starts *NDBuffer // how many are true before each tile, and in all
	n      int64
	count  int64 // how many are true
}

// newTruths counts what is true of a mask, whose dtype is bool. The caller
// releases it.
func newTruths(mask *NDBuffer) (*truths, error) {
	flat, err := mask.Ravel(OrderC)
	if err != nil {
		return nil, err
	}
	t := &truths{mask: flat, n: flat.Size()}
	if t.starts, err = t.scan(); err != nil {
		flat.Release()
		return nil, err
	}
	last, err := t.starts.Slice(0, cpu.Tiles(t.n), cpu.Tiles(t.n)+1)
	if err == nil {
		defer last.Release()
		var total []int64
		if total, err = ToHost[int64](last); err == nil {
			t.count = total[0]
			return t, nil
		}
	}
	t.release()
	return nil, err
}

func (t *truths) release() {
	t.mask.Release()
	t.starts.Release()
}

// scan counts the true elements of each tile, and sums the counts.
func (t *truths) scan() (*NDBuffer, error) {
	dev, tiles := t.mask.Device(), cpu.Tiles(t.n)
	starts, err := Zeros(dev, Int64, tiles+1)
	if err != nil || tiles == 0 {
		return starts, err
	}
	counts, err := Empty(dev, Uint32, tiles)
	if err != nil {
		starts.Release()
		return nil, err
	}
	defer counts.Release()
	if mask, ok := t.mask.HostBytes(); ok {
		each := make([]uint32, tiles)
		cpu.CountTiles(mask, each)
		cpu.ScanTiles(each, hostSlice[int64](starts))
		return starts, nil
	}
	block := cudabuf.Dim3{X: tileThreads}
	err = launch.Queue(dev, compactProgram, "quiver_mask_count", cudabuf.Dim3{X: uint32(tiles)}, block, t.mask.in(), t.n, counts.inOut())
	if err == nil {
		err = launch.Queue(dev, compactProgram, "quiver_mask_scan", cudabuf.Dim3{X: uint32(tiles/scanTiles + 1)}, block, counts.in(), tiles, starts.inOut())
	}
	if err != nil {
		starts.Release()
		return nil, err
	}
	return starts, nil
}

// The blocks of compact.cu, and how many tiles one of its scan does.
const (
	tileThreads = 256
	scanTiles   = 1024
)

// each launches a kernel that does a tile a block.
func (t *truths) each(kernel string, args ...any) error {
	args = append([]any{t.mask.in(), t.n, t.starts.in()}, args...)
	return launch.Queue(t.mask.Device(), compactProgram, kernel, cudabuf.Dim3{X: uint32(cpu.Tiles(t.n))}, cudabuf.Dim3{X: tileThreads}, args...)
}

// positions are the places of the true elements, as int64.
func (t *truths) positions() (*NDBuffer, error) {
	out, err := Empty(t.mask.Device(), Int64, t.count)
	if err != nil || t.count == 0 {
		return out, err
	}
	if mask, ok := t.mask.HostBytes(); ok {
		cpu.TruePositions(mask, hostSlice[int64](t.starts), hostSlice[uint64](out))
		return out, nil
	}
	if err := t.each("quiver_true_positions", out.inOut()); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// oneByOne tells whether compact and expand do an array's elements: they are of a
// size that is moved at once, and lie as a mask of the same shape does.
func (a *NDBuffer) oneByOne() bool {
	size := uint64(a.dtype.size)
	return size <= 16 && size&(size-1) == 0 && a.IsContiguous() && a.alignment()%size == 0
}

// compact copies the elements of a at which the mask is true to an array.
func (t *truths) compact(a *NDBuffer) (*NDBuffer, error) {
	out, err := Empty(a.Device(), a.dtype, t.count)
	if err != nil || t.count == 0 {
		return out, err
	}
	if mask, ok := t.mask.HostBytes(); ok {
		from, _ := a.hostAt()
		to, _ := out.hostAt()
		cpu.Compact(mask, hostSlice[int64](t.starts), from, to, a.dtype.Size())
		return out, nil
	}
	if err := t.each(fmt.Sprintf("quiver_compact_%d", a.dtype.size), a.in(), out.inOut()); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// expand writes values, one an element or one for all of them, to the elements of
// a at which the mask is true.
func (t *truths) expand(a, values *NDBuffer) error {
	if t.count == 0 {
		return nil
	}
	step := min(values.Size()-1, 1)
	if mask, ok := t.mask.HostBytes(); ok {
		from, _ := values.hostAt()
		to, _ := a.hostAt()
		cpu.Expand(mask, hostSlice[int64](t.starts), from, step, to, a.dtype.Size())
		return nil
	}
	return t.each(fmt.Sprintf("quiver_expand_%d", a.dtype.size), values.in(), step, a.inOut())
}
