package ndview

import (
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// positions are the indices of a selection as one array, of int32 or int64: element
// k, of extent, is k*step bytes behind the offset.
type positions struct {
	indices      *NDBuffer
	strides      []int64 // along the varied shape
	offset       int64
	extent, step int64
}

// directPositions are places of which the indices need no work but to be checked.
func (s *selection) directPositions() (*positions, bool) {
	p := &s.axes[0]
	dtype := p.indices.dtype
	ok := len(s.axes) == 1 && s.mode == ModeRaise && (dtype == Int32 || dtype == Int64) &&
		p.indices.alignment()%uint64(dtype.Size()) == 0
	return &positions{p.indices, p.strides, s.offset, p.extent, p.stride}, ok
}

// resolve checks all indices and combines them to one array of int64, none of
// them negative, which the caller releases. Equal places are equal numbers.
func (s *selection) resolve(flags *badIndexFlags) (*positions, error) {
	step := int64(0)
	for _, p := range s.axes {
		step = gcd(step, max(p.stride, -p.stride))
	}
	pos, err := Empty(s.array.Device(), Int64, s.indexShape...)
	if err != nil {
		return nil, err
	}
	where := &positions{pos, pos.strides, s.offset, 1, max(step, 1)}
	for i := range s.axes {
		if err == nil {
			err = where.addAxis(s, i, flags)
		}
	}
	if err == nil && s.mode == ModeRaise { // in others no index is bad, and nobody waits
		err = flags.firstError()
	}
	if err != nil {
		pos.Release()
		return nil, err
	}
	return where, nil
}

// addAxis adds what the indices along an axis contribute. Those of an axis that runs
// backwards are counted from its end.
func (w *positions) addAxis(s *selection, i int, flags *badIndexFlags) error {
	p := &s.axes[i]
	walk, err := cpu.NewWalk(s.indexShape, nil, p.strides, nil)
	if err != nil {
		return err
	}
	f := cpu.Folding{Extent: p.extent, Scale: p.stride / w.step, Mode: cpu.Mode(s.mode), Size: int32(p.indices.dtype.Size())}
	if f.Scale < 0 {
		f.Bias = -f.Scale * (p.extent - 1)
		w.offset += p.stride * (p.extent - 1)
	}
	if i > 0 {
		f.Add = 1
	}
	if p.indices.dtype.Kind() == KindInt {
		f.Signed = 1
	}
	w.extent += max(f.Scale, -f.Scale) * (p.extent - 1)
	flags.walks[i] = walk
	return resolveIndices(w.indices, p.indices, walk, &f, flags, i)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// badIndexFlags tell which indices of a selection are bad. There is one word an axis that
// is picked along, in the device's memory: the first item of a walk whose index
// is bad.
type badIndexFlags struct {
	array  *NDBuffer
	picked []indexedAxis
	walks  []*cpu.Walk
}

// newBadIndexFlags makes flags for a selection that has indices.
func newBadIndexFlags(s *selection) (*badIndexFlags, error) {
	for _, p := range s.axes {
		if p.extent == 0 {
			return nil, fmt.Errorf("indices of axis %d, which has no elements: %w", p.axis, arrowbuf.ErrOutOfRange)
		}
	}
	array, err := Empty(s.array.Device(), Uint64, int64(len(s.axes)))
	if err != nil {
		return nil, err
	}
	if err := array.Fill(uint64(cpu.NoFlag)); err != nil {
		array.Release()
		return nil, err
	}
	return &badIndexFlags{array, s.axes, make([]*cpu.Walk, len(s.axes))}, nil
}

// firstError waits for the work that was given the flags, and answers an error that
// names the first bad index.
func (f *badIndexFlags) firstError() error {
	raw := make([]byte, f.array.NBytes())
	if err := f.array.CopyToHost(raw); err != nil {
		return err
	}
	for i, p := range f.picked {
		if item := binary.NativeEndian.Uint64(raw[8*i:]); cpu.Flag(item) != cpu.NoFlag {
			return p.outOfRange(f.walks[i].At(int64(item)).Index)
		}
	}
	return nil
}

// outOfRange is the error for the index so many bytes behind the first.
func (p *indexedAxis) outOfRange(behind int64) error {
	one, err := p.indices.view(p.indices.dtype, p.indices.offset+behind, nil, nil)
	if err != nil {
		return err
	}
	defer one.Release()
	var raw [8]byte
	if err := one.CopyToHost(raw[:one.dtype.Size()]); err != nil {
		return err
	}
	value := binary.NativeEndian.Uint64(raw[:])
	text := fmt.Sprint(value)
	if one.dtype.Kind() == KindInt {
		beyond := 64 - 8*one.dtype.Size()
		text = fmt.Sprint(int64(value<<beyond) >> beyond)
	}
	return fmt.Errorf("index %s is outside axis %d of %d elements: %w", text, p.axis, p.extent, arrowbuf.ErrOutOfRange)
}

// maskScan are a mask's elements in C order, with the sums that tell where each
// true one goes.
type maskScan struct {
	mask       *NDBuffer // bool, gapless
	tileStarts *NDBuffer // how many are true before each tile, and in all
	n          int64
	count      int64 // how many are true
}

// scanMask counts what is true of a mask, whose dtype is bool. The caller
// releases it.
func scanMask(mask *NDBuffer) (*maskScan, error) {
	flat, err := mask.Ravel(OrderC)
	if err != nil {
		return nil, err
	}
	t := &maskScan{mask: flat, n: flat.Size()}
	if t.tileStarts, err = t.countTiles(); err != nil {
		flat.Release()
		return nil, err
	}
	last, err := t.tileStarts.Slice(0, cpu.Tiles(t.n), cpu.Tiles(t.n)+1)
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

func (t *maskScan) release() {
	t.mask.Release()
	t.tileStarts.Release()
}

// countTiles counts the true elements of each tile, and sums the counts.
func (t *maskScan) countTiles() (*NDBuffer, error) {
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
		err = launch.Queue(dev, compactProgram, "quiver_mask_scan", cudabuf.Dim3{X: uint32(tiles/tilesPerScanBlock + 1)}, block, counts.in(), tiles, starts.inOut())
	}
	if err != nil {
		starts.Release()
		return nil, err
	}
	return starts, nil
}

// The blocks of compact.cu, and how many tiles one of its scan does.
const (
	tileThreads       = 256
	tilesPerScanBlock = 1024
)

// launchTiles launches a kernel that does a tile a block.
func (t *maskScan) launchTiles(kernel string, args ...any) error {
	args = append([]any{t.mask.in(), t.n, t.tileStarts.in()}, args...)
	return launch.Queue(t.mask.Device(), compactProgram, kernel, cudabuf.Dim3{X: uint32(cpu.Tiles(t.n))}, cudabuf.Dim3{X: tileThreads}, args...)
}

// truePositions are the places of the true elements, as int64.
func (t *maskScan) truePositions() (*NDBuffer, error) {
	out, err := Empty(t.mask.Device(), Int64, t.count)
	if err != nil || t.count == 0 {
		return out, err
	}
	if mask, ok := t.mask.HostBytes(); ok {
		cpu.TruePositions(mask, hostSlice[int64](t.tileStarts), hostSlice[uint64](out))
		return out, nil
	}
	if err := t.launchTiles("quiver_true_positions", out.inOut()); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// isCompactable tells whether compact and expand do an array's elements: they are of a
// size that is moved at once, and lie as a mask of the same shape does.
func (a *NDBuffer) isCompactable() bool {
	size := uint64(a.dtype.Size())
	return size <= 16 && size&(size-1) == 0 && a.IsContiguous() && a.alignment()%size == 0
}

// compact copies the elements of a at which the mask is true to an array.
func (t *maskScan) compact(a *NDBuffer) (*NDBuffer, error) {
	out, err := Empty(a.Device(), a.dtype, t.count)
	if err != nil || t.count == 0 {
		return out, err
	}
	if mask, ok := t.mask.HostBytes(); ok {
		from, _ := a.hostAt()
		to, _ := out.hostAt()
		cpu.Compact(mask, hostSlice[int64](t.tileStarts), from, to, a.dtype.Size())
		return out, nil
	}
	if err := t.launchTiles(fmt.Sprintf("quiver_compact_%d", a.dtype.Size()), a.in(), out.inOut()); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// expand writes values, one an element or one for all of them, to the elements of
// a at which the mask is true.
func (t *maskScan) expand(a, values *NDBuffer) error {
	if t.count == 0 {
		return nil
	}
	step := min(values.Size()-1, 1)
	if mask, ok := t.mask.HostBytes(); ok {
		from, _ := values.hostAt()
		to, _ := a.hostAt()
		cpu.Expand(mask, hostSlice[int64](t.tileStarts), from, step, to, a.dtype.Size())
		return nil
	}
	return t.launchTiles(fmt.Sprintf("quiver_expand_%d", a.dtype.Size()), values.in(), step, a.inOut())
}

// NonZero tells where the elements of an array are that are not 0, in C order:
// one array of int64 an axis. The caller releases them. Of an array without axes
// there is none, so it is ErrShape, as in NumPy.
func NonZero(a *NDBuffer) ([]*NDBuffer, error) {
	if len(a.shape) == 0 {
		return nil, fmt.Errorf("NonZero of an array without axes: make it AtLeast1D: %w", ErrShape)
	}
	all, err := nonZeroIndices(a)
	if err != nil {
		return nil, err
	}
	defer all.Release()
	axes := make([]*NDBuffer, len(a.shape))
	for k := range axes {
		if axes[k], err = all.Index(At(int64(k))); err != nil {
			releaseAll(axes[:k])
			return nil, err
		}
	}
	return axes, nil
}

// ArgWhere tells where the elements of an array are that are not 0, in C order:
// an array of int64 of shape [such elements, axes].
func ArgWhere(a *NDBuffer) (*NDBuffer, error) {
	all, err := nonZeroIndices(a)
	if err != nil {
		return nil, err
	}
	defer all.Release()
	return all.Transpose()
}

// nonZeroIndices is ArgWhere with the axes first.
func nonZeroIndices(a *NDBuffer) (*NDBuffer, error) {
	truths, err := a.nonZeroMask()
	if err != nil {
		return nil, err
	}
	defer truths.Release()
	places, err := maskPositions(truths)
	if err != nil {
		return nil, err
	}
	defer places.Release()
	if len(a.shape) == 1 {
		return places.Reshape(1, places.Size())
	}
	return unravelPositions(places, a.shape)
}

// nonZeroMask tells which elements are not 0, as dtype bool.
func (a *NDBuffer) nonZeroMask() (*NDBuffer, error) {
	if a.dtype == Bool {
		return a.ExpandDims()
	}
	return a.AsType(Bool, OrderK, CastUnsafe)
}

// maskPositions tells which elements of a mask, counted in C order, are true.
func maskPositions(mask *NDBuffer) (*NDBuffer, error) {
	if mask.dtype != Bool {
		return nil, fmt.Errorf("a mask of dtype %s: bool is expected: %w", mask.dtype, ErrDType)
	}
	t, err := scanMask(mask)
	if err != nil {
		return nil, err
	}
	defer t.release()
	return t.truePositions()
}

// alignment has the address of the first element and all strides: where it is a
// multiple of a power of two, so are all elements' addresses.
func (a *NDBuffer) alignment() uint64 {
	all := a.address()
	for i, s := range a.strides {
		if a.shape[i] > 1 {
			all |= uint64(s)
		}
	}
	return all
}

// shapeArg is a shape as an argument of a kernel.
type shapeArg struct {
	Axes   int64
	Extent [32]int64
}

// unravelPositions makes places in a shape, in C order, to what they are along each axis:
// an array of shape [axes, places].
func unravelPositions(places *NDBuffer, shape []int64) (*NDBuffer, error) {
	out, err := Empty(places.Device(), Int64, int64(len(shape)), places.Size())
	if err != nil || out.Size() == 0 {
		return out, err
	}
	if _, ok := places.HostBytes(); ok {
		cpu.Unravel(hostSlice[int64](places), shape, hostSlice[int64](out))
		return out, nil
	}
	c := shapeArg{Axes: int64(len(shape))}
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

// resolveIndices resolves indices into pos.
func resolveIndices(pos, indices *NDBuffer, walk *cpu.Walk, f *cpu.Folding, flags *badIndexFlags, flag int) error {
	if to, ok := pos.hostAt(); ok {
		from, _ := indices.hostAt()
		word, _ := hostAt(flags.array.buf, 8*int64(flag))
		cpu.Fold(to, from, walk, f, cpu.Report{Flag: (*cpu.Flag)(word)})
		return nil
	}
	return walk.Cut(maxItems, func(part *cpu.Walk, first int64, at cpu.Offset) error {
		return launch.Items(pos.Device(), resolveProgram, "quiver_fold", part.Items, perThread,
			indices.at(at.Index), pos.atOut(8*first), launch.StructOf(part), launch.StructOf(f), first, flags.array.atOut(8*int64(flag)))
	})
}
