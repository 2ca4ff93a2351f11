package ndview

import (
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// positions are the indices of all axes of a selection, combined into one array of
// int32 or int64. Position k, below extent, is the element at byte offset+k*step of
// the buffer.
type positions struct {
	indices      *NDBuffer
	strides      []int64 // along the index shape
	offset       int64
	extent, step int64
}

// directPositions returns the indices of the first axis as positions, and whether the
// gather kernels can use them and check them as they are.
func (s *selection) directPositions() (*positions, bool) {
	axis := &s.axes[0]
	dtype := axis.indices.dtype
	ok := len(s.axes) == 1 && s.mode == ModeRaise && (dtype == Int32 || dtype == Int64) &&
		axis.indices.alignmentBits()%uint64(dtype.Size()) == 0
	return &positions{axis.indices, axis.strides, s.offset, axis.extent, axis.stride}, ok
}

// resolve checks all indices and combines them into positions of int64, none of
// them negative. Equal positions are the same element. The caller must release the
// indices of the result.
func (s *selection) resolve(flags *badIndexFlags) (*positions, error) {
	step := int64(0)
	for _, axis := range s.axes {
		step = gcd(step, max(axis.stride, -axis.stride))
	}
	indices, err := Empty(s.array.Device(), Int64, s.indexShape...)
	if err != nil {
		return nil, err
	}
	pos := &positions{indices, indices.strides, s.offset, 1, max(step, 1)}
	for i := range s.axes {
		if err == nil {
			err = pos.addAxis(s, i, flags)
		}
	}
	if err == nil && s.mode == ModeRaise { // other modes need not wait: no index is bad
		err = flags.firstError()
	}
	if err != nil {
		indices.Release()
		return nil, err
	}
	return pos, nil
}

// addAxis adds the contribution of axis i to the positions. An axis of negative
// stride is counted from its end, so that no position is negative.
func (p *positions) addAxis(s *selection, i int, flags *badIndexFlags) error {
	axis := &s.axes[i]
	walk, err := cpu.NewWalk(s.indexShape, nil, axis.strides, nil)
	if err != nil {
		return err
	}
	m := cpu.IndexMap{Extent: axis.extent, Scale: axis.stride / p.step, Mode: cpu.Mode(s.mode), Size: int32(axis.indices.dtype.Size())}
	if m.Scale < 0 {
		m.Bias = -m.Scale * (axis.extent - 1)
		p.offset += axis.stride * (axis.extent - 1)
	}
	if i > 0 {
		m.Add = 1
	}
	if axis.indices.dtype.Kind() == KindInt {
		m.Signed = 1
	}
	p.extent += max(m.Scale, -m.Scale) * (axis.extent - 1)
	flags.walks[i] = walk
	return resolveIndices(p.indices, axis.indices, walk, &m, flags, i)
}

// resolveIndices writes the positions of the indices of one axis to pos, or adds them,
// as m says. Bad indices are flagged. The host kernel is in resolveProgram.
func resolveIndices(pos, indices *NDBuffer, walk *cpu.Walk, m *cpu.IndexMap, flags *badIndexFlags, axis int) error {
	if to, ok := pos.hostAt(); ok {
		from, _ := indices.hostAt()
		word, _ := hostAt(flags.words.buf, 8*int64(axis))
		cpu.ResolveIndices(to, from, walk, m, cpu.BadIndexReport{Flag: (*cpu.FirstBadIndex)(word)})
		return nil
	}
	return walk.Split(maxItems, func(part *cpu.Walk, first int64, at cpu.Offset) error {
		return launch.QueueItems(pos.Device(), resolveProgram, "quiver_resolve_indices", part.Items, perThread,
			indices.at(at.Index), pos.atOut(8*first), launch.StructBytes(part), launch.StructBytes(m), first, flags.words.atOut(8*int64(axis)))
	})
}

// alignmentBits returns the bitwise or of the first element's address and all
// strides. A power of two divides it if it divides the address of every element.
func (a *NDBuffer) alignmentBits() uint64 {
	all := a.address()
	for i, s := range a.strides {
		if a.shape[i] > 1 {
			all |= uint64(s)
		}
	}
	return all
}

// gcd returns the greatest common divisor of two numbers that are not negative.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// badIndexFlags record bad indices of a selection. Kernels lower one word per indexed
// axis, in the device's memory, to the number of the walk's first item with a bad
// index.
type badIndexFlags struct {
	words *NDBuffer // uint64; the owner of the flags releases it
	axes  []indexedAxis
	walks []*cpu.Walk
}

// newBadIndexFlags returns flags for a selection whose indices are not empty. It
// returns arrowbuf.ErrOutOfRange for an axis without elements: any index is bad.
func newBadIndexFlags(s *selection) (*badIndexFlags, error) {
	for _, axis := range s.axes {
		if axis.extent == 0 {
			return nil, fmt.Errorf("indices of axis %d, which has no elements: %w", axis.number, arrowbuf.ErrOutOfRange)
		}
	}
	words, err := Empty(s.array.Device(), Uint64, int64(len(s.axes)))
	if err != nil {
		return nil, err
	}
	if err := words.Fill(uint64(cpu.NoBadIndex)); err != nil {
		words.Release()
		return nil, err
	}
	return &badIndexFlags{words, s.axes, make([]*cpu.Walk, len(s.axes))}, nil
}

// firstError waits for the kernels that use the flags. It returns an error that names
// the first bad index, or nil.
func (f *badIndexFlags) firstError() error {
	raw := make([]byte, f.words.NBytes())
	if err := f.words.CopyToHost(raw); err != nil {
		return err
	}
	for i, axis := range f.axes {
		if item := binary.NativeEndian.Uint64(raw[8*i:]); cpu.FirstBadIndex(item) != cpu.NoBadIndex {
			return axis.outOfRange(f.walks[i].At(int64(item)).Index)
		}
	}
	return nil
}

// outOfRange returns the error for the index at a byte offset from the first.
func (x *indexedAxis) outOfRange(offset int64) error {
	index, err := x.indices.view(x.indices.dtype, x.indices.offset+offset, nil, nil)
	if err != nil {
		return err
	}
	defer index.Release()
	var raw [8]byte
	if err := index.CopyToHost(raw[:index.dtype.Size()]); err != nil {
		return err
	}
	value := binary.NativeEndian.Uint64(raw[:])
	text := fmt.Sprint(value)
	if index.dtype.Kind() == KindInt {
		unused := 64 - 8*index.dtype.Size()
		text = fmt.Sprint(int64(value<<unused) >> unused)
	}
	return fmt.Errorf("index %s is outside axis %d of %d elements: %w", text, x.number, x.extent, arrowbuf.ErrOutOfRange)
}

// maskScan is a flat mask with the prefix sums of its true elements, by which
// compact and expand find the position of each.
type maskScan struct {
	mask       *NDBuffer // bool, contiguous, one axis
	tileStarts *NDBuffer // int64: true elements before each tile, and in total
	n          int64     // elements of the mask
	count      int64     // true elements
}

// scanMask counts the true elements of a mask of dtype Bool, in C order. The caller
// must release the scan.
func scanMask(mask *NDBuffer) (*maskScan, error) {
	flat, err := mask.ravel(OrderC)
	if err != nil {
		return nil, err
	}
	s := &maskScan{mask: flat, n: flat.Size()}
	if s.tileStarts, err = s.countTiles(); err != nil {
		flat.Release()
		return nil, err
	}
	last, err := s.tileStarts.Slice(0, cpu.Tiles(s.n), cpu.Tiles(s.n)+1)
	if err == nil {
		defer last.Release()
		var total []int64
		if total, err = ToHost[int64](last); err == nil {
			s.count = total[0]
			return s, nil
		}
	}
	s.release()
	return nil, err
}

func (s *maskScan) release() {
	s.mask.Release()
	s.tileStarts.Release()
}

// countTiles returns the prefix sums of the number of true elements per tile.
func (s *maskScan) countTiles() (*NDBuffer, error) {
	dev, tiles := s.mask.Device(), cpu.Tiles(s.n)
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
	if mask, ok := s.mask.HostBytes(); ok {
		each := make([]uint32, tiles)
		cpu.CountTiles(mask, each)
		cpu.ScanTiles(each, hostSlice[int64](starts))
		return starts, nil
	}
	block := cudabuf.Dim3{X: tileThreads}
	err = launch.Queue(dev, compactProgram, "quiver_mask_count", cudabuf.Dim3{X: uint32(tiles)}, block, s.mask.in(), s.n, counts.inOut())
	if err == nil {
		err = launch.Queue(dev, compactProgram, "quiver_mask_scan", cudabuf.Dim3{X: uint32(tiles/tilesPerScanBlock + 1)}, block, counts.in(), tiles, starts.inOut())
	}
	if err != nil {
		starts.Release()
		return nil, err
	}
	return starts, nil
}

// Constants of the compaction kernels' source.
const (
	tileThreads       = 256  // per block
	tilesPerScanBlock = 1024 // that one block of the scan sums
)

// launchTiles launches a kernel of compactProgram with one block per tile. The mask,
// its length and the tile starts are the first arguments.
func (s *maskScan) launchTiles(kernel string, args ...any) error {
	args = append([]any{s.mask.in(), s.n, s.tileStarts.in()}, args...)
	return launch.Queue(s.mask.Device(), compactProgram, kernel, cudabuf.Dim3{X: uint32(cpu.Tiles(s.n))}, cudabuf.Dim3{X: tileThreads}, args...)
}

// truePositions returns the positions of the true elements, as int64.
func (s *maskScan) truePositions() (*NDBuffer, error) {
	out, err := Empty(s.mask.Device(), Int64, s.count)
	if err != nil || s.count == 0 {
		return out, err
	}
	if mask, ok := s.mask.HostBytes(); ok {
		cpu.TruePositions(mask, hostSlice[int64](s.tileStarts), hostSlice[uint64](out))
		return out, nil
	}
	if err := s.launchTiles("quiver_true_positions", out.inOut()); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// isCompactable reports whether compact and expand support the array: it must be
// contiguous and aligned, with elements of 1, 2, 4, 8 or 16 bytes.
func (a *NDBuffer) isCompactable() bool {
	size := uint64(a.dtype.Size())
	return size <= 16 && size&(size-1) == 0 && a.IsContiguous() && a.alignmentBits()%size == 0
}

// compact copies the elements of a at which the mask is true to a new array.
func (s *maskScan) compact(a *NDBuffer) (*NDBuffer, error) {
	out, err := Empty(a.Device(), a.dtype, s.count)
	if err != nil || s.count == 0 {
		return out, err
	}
	if mask, ok := s.mask.HostBytes(); ok {
		from, _ := a.hostAt()
		to, _ := out.hostAt()
		cpu.Compact(mask, hostSlice[int64](s.tileStarts), from, to, a.dtype.Size())
		return out, nil
	}
	if err := s.launchTiles(fmt.Sprintf("quiver_compact_%d", a.dtype.Size()), a.in(), out.inOut()); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// expand writes values to the elements of a at which the mask is true: one value
// each, or one for all.
func (s *maskScan) expand(a, values *NDBuffer) error {
	if s.count == 0 {
		return nil
	}
	step := min(values.Size()-1, 1)
	if mask, ok := s.mask.HostBytes(); ok {
		from, _ := values.hostAt()
		to, _ := a.hostAt()
		cpu.Expand(mask, hostSlice[int64](s.tileStarts), from, step, to, a.dtype.Size())
		return nil
	}
	return s.launchTiles(fmt.Sprintf("quiver_expand_%d", a.dtype.Size()), values.in(), step, a.inOut())
}

// NonZero returns the indices of the elements of a that are not 0, in C order: one
// array of int64 per axis, on the device of a. The caller must release them. It
// returns ErrShape for an array without axes, as NumPy does.
func NonZero(a *NDBuffer) ([]*NDBuffer, error) {
	return a.callForAll("NonZero", func() ([]*NDBuffer, error) { return nonZero(a) })
}

func nonZero(a *NDBuffer) ([]*NDBuffer, error) {
	if len(a.shape) == 0 {
		return nil, fmt.Errorf("array without axes, use AtLeast1D: %w", ErrShape)
	}
	all, err := nonZeroIndices(a)
	if err != nil {
		return nil, err
	}
	defer all.Release()
	axes := make([]*NDBuffer, len(a.shape))
	for k := range axes {
		if axes[k], err = all.index(At(int64(k))); err != nil {
			releaseAll(axes[:k])
			return nil, err
		}
	}
	return axes, nil
}

// ArgWhere returns the indices of the elements of a that are not 0, in C order: an
// array of int64 of shape [number of elements that are not 0, axes of a]. The caller
// must release it.
func ArgWhere(a *NDBuffer) (*NDBuffer, error) {
	return callOn("ArgWhere", func() (*NDBuffer, error) { return argWhere(a) }, a)
}

func argWhere(a *NDBuffer) (*NDBuffer, error) {
	all, err := nonZeroIndices(a)
	if err != nil {
		return nil, err
	}
	defer all.Release()
	return all.transpose()
}

// nonZeroIndices returns the transpose of ArgWhere.
func nonZeroIndices(a *NDBuffer) (*NDBuffer, error) {
	mask, err := a.nonZeroMask()
	if err != nil {
		return nil, err
	}
	defer mask.Release()
	pos, err := maskPositions(mask)
	if err != nil {
		return nil, err
	}
	defer pos.Release()
	if len(a.shape) == 1 {
		return pos.reshape(1, pos.Size())
	}
	return unravelPositions(pos, a.shape)
}

// nonZeroMask returns an array of dtype Bool that is true for elements other than 0.
func (a *NDBuffer) nonZeroMask() (*NDBuffer, error) {
	if a.dtype == Bool {
		return a.expandDims()
	}
	return a.asType(Bool, OrderK, CastUnsafe)
}

// maskPositions returns the positions of a mask's true elements, counted in C order,
// as int64.
func maskPositions(mask *NDBuffer) (*NDBuffer, error) {
	if mask.dtype != Bool {
		return nil, fmt.Errorf("mask of dtype %s, want bool: %w", mask.dtype, ErrDType)
	}
	s, err := scanMask(mask)
	if err != nil {
		return nil, err
	}
	defer s.release()
	return s.truePositions()
}

// shapeArg is a shape as a kernel argument.
type shapeArg struct {
	Axes   int64
	Extent [32]int64
}

// unravelPositions returns the index along each axis of positions, which count the
// elements of a shape in C order: an array of int64 of shape [axes, positions]. The
// host kernel is in compactProgram.
func unravelPositions(pos *NDBuffer, shape []int64) (*NDBuffer, error) {
	out, err := Empty(pos.Device(), Int64, int64(len(shape)), pos.Size())
	if err != nil || out.Size() == 0 {
		return out, err
	}
	if _, ok := pos.HostBytes(); ok {
		cpu.Unravel(hostSlice[int64](pos), shape, hostSlice[int64](out))
		return out, nil
	}
	arg := shapeArg{Axes: int64(len(shape))}
	if copy(arg.Extent[:], shape) < len(shape) {
		err = fmt.Errorf("array of %d axes, want at most %d: %w", len(shape), len(arg.Extent), ErrShape)
	} else {
		err = launch.QueueItems(pos.Device(), compactProgram, "quiver_unravel", pos.Size(), 1, pos.in(), pos.Size(), launch.StructBytes(&arg), out.inOut())
	}
	if err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}
