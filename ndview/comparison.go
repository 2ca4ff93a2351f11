package ndview

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/equal"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/reduce"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// comparison compares arrays on one device, which say together whether they are
// equal. On a GPU they share a word there, which is set where one is not.
type comparison struct {
	device arrowbuf.Device
	word   *cudabuf.Buffer // nil on the host
	differ bool
}

func newComparison(dev arrowbuf.Device) (*comparison, error) {
	c := &comparison{device: dev}
	cuda, ok := dev.(*cudabuf.Device)
	if !ok {
		return c, nil
	}
	var err error
	if c.word, err = cuda.NewBuffer(4); err != nil {
		return nil, err
	}
	stream, err := cuda.DefaultStream()
	if err == nil {
		err = c.word.FillAsync(0, stream)
	}
	if err != nil {
		c.word.Release()
		return nil, err
	}
	return c, nil
}

func (c *comparison) end() {
	if c.word != nil {
		c.word.Release()
	}
}

// result waits for the comparisons and tells whether all found equal elements.
func (c *comparison) result() (bool, error) {
	if c.word == nil {
		return !c.differ, nil
	}
	var word [4]byte
	_, err := c.word.CopyToHost(word[:], 0)
	return word == [4]byte{}, err
}

// add compares the values of x and y, which broadcast to the shape.
func (c *comparison) add(x, y *NDBuffer, shape []int64, equalNaN bool) error {
	typeX, isNumber := x.dtype.numberCode()
	p := &equal.Plan{NaNEqual: boolToInt(equalNaN), TypeX: uint8(typeX)}
	mode, byValue := equal.ByValue[typeX]
	switch {
	case x.dtype != y.dtype:
		typeY, _ := y.dtype.numberCode()
		p.TypeY = uint8(typeY)
		return c.compare(p, equal.Mixed, x, y, shape)
	case isNumber && byValue:
		return c.compare(p, mode, x, y, shape)
	case x.dtype.IsTime() && !equalNaN:
		return c.compare(p, equal.Times, x, y, shape)
	case x.dtype.kind == KindRecord:
		return c.fields(x, y, shape)
	}
	return c.bits(x, y, shape)
}

// addValue compares the elements of x with one value of a type whose size is a
// power of 2: its bits, or what it stands for.
func (c *comparison) addValue(x *NDBuffer, raw []byte, dtype DType, byBits, equalNaN bool) error {
	p := &equal.Plan{Constant: 1, NaNEqual: boolToInt(equalNaN)}
	pattern := slices.Repeat(raw, 16/len(raw))
	p.Pattern = [2]uint64{binary.NativeEndian.Uint64(pattern), binary.NativeEndian.Uint64(pattern[8:])}
	mode := equal.ByBits(x.dtype.Size())
	typeX, isNumber := x.dtype.numberCode()
	byValue, ok := equal.ByValue[typeX]
	switch {
	case byBits:
	case dtype != x.dtype:
		typeY, _ := dtype.numberCode()
		p.TypeX, p.TypeY = uint8(typeX), uint8(typeY)
		mode = equal.Mixed
	case isNumber && ok:
		mode = byValue
	case dtype.IsTime() && !equalNaN:
		mode = equal.Times
	}
	return c.compare(p, mode, x, nil, x.shape)
}

// fields compares records.
func (c *comparison) fields(x, y *NDBuffer, shape []int64) error {
	for _, f := range x.dtype.record.fields {
		fx, err := x.field(f, len(shape))
		if err != nil {
			return err
		}
		defer fx.Release()
		fy, err := y.field(f, len(shape))
		if err != nil {
			return err
		}
		defer fy.Release()
		if err := c.add(fx, fy, append(slices.Clone(shape), f.Shape...), false); err != nil {
			return err
		}
	}
	return nil
}

// field is a view of one field of records, which has n axes and those of the
// field.
func (a *NDBuffer) field(f Field, n int) (*NDBuffer, error) {
	missing := n - len(a.shape)
	shape := slices.Concat(slices.Repeat([]int64{1}, missing), a.shape, f.Shape)
	strides := slices.Concat(make([]int64, missing), a.strides, layout.C(f.DType.Size(), f.Shape))
	return a.view(f.DType, a.offset+f.Offset, shape, strides)
}

// bits compares elements of one size by their bits, in the largest units that they
// and their places are multiples of.
func (c *comparison) bits(x, y *NDBuffer, shape []int64) error {
	size := x.dtype.Size()
	unit := int64(1) << bits.TrailingZeros64(uint64(size)|16|x.places()|y.places())
	if unit == size {
		return c.compare(&equal.Plan{}, equal.ByBits(unit), x, y, shape)
	}
	units := Field{DType: Bytes(int32(unit)), Shape: []int64{size / unit}}
	ux, err := x.field(units, len(shape))
	if err != nil {
		return err
	}
	defer ux.Release()
	uy, err := y.field(units, len(shape))
	if err != nil {
		return err
	}
	defer uy.Release()
	return c.compare(&equal.Plan{}, equal.ByBits(unit), ux, uy, append(slices.Clone(shape), size/unit))
}

// places are the bits of all addresses at which elements lie.
func (a *NDBuffer) places() uint64 {
	all := uint64(a.buf.Address()) + uint64(a.offset)
	for i, stride := range a.strides {
		if a.shape[i] > 1 {
			all |= uint64(stride)
		}
	}
	return all
}

// compare compares x with y, or with the plan's pattern where y is nil.
func (c *comparison) compare(p *equal.Plan, mode equal.Mode, x, y *NDBuffer, shape []int64) error {
	if c.word != nil && x.places()%uint64(x.dtype.Size()) != 0 {
		aligned, err := x.Copy(OrderC)
		if err != nil {
			return err
		}
		defer aligned.Release()
		x = aligned
	}
	if c.word != nil && y != nil && y.places()%uint64(y.dtype.Size()) != 0 {
		aligned, err := y.Copy(OrderC)
		if err != nil {
			return err
		}
		defer aligned.Release()
		y = aligned
	}
	stepX, err := layout.Stretch(x.shape, x.strides, shape)
	if err != nil {
		return err
	}
	stepY := make([]int64, len(shape))
	if y != nil {
		if stepY, err = layout.Stretch(y.shape, y.strides, shape); err != nil {
			return err
		}
	}
	nest := layout.Collapse(shape, stepX, stepY)
	if len(nest.Shape) > reduce.MaxAxes {
		return c.compareCopies(p, mode, x, y, shape)
	}
	p.Elements, p.Axes = product(shape), int32(len(nest.Shape))
	for i := range nest.Shape {
		at := len(nest.Shape) - 1 - i
		p.Axis[i] = reduce.Axis{Extent: reduce.NewDivisor(nest.Shape[at]), In: nest.Strides[0][at], Out: nest.Strides[1][at]}
	}
	if from, ok := x.hostAt(); ok {
		with := unsafe.Pointer(&p.Pattern)
		if y != nil {
			with, _ = y.hostAt()
			with = unsafe.Add(with, nest.Offsets[1])
		}
		c.differ = c.differ || !mode.Arrays(p, unsafe.Add(from, nest.Offsets[0]), with)
		return nil
	}
	return c.launch(p, mode, x, y, nest.Offsets)
}

// compareCopies compares copies of x and y, if there is one, whose axes are one,
// where as they lie more cannot be joined than a plan has.
func (c *comparison) compareCopies(p *equal.Plan, mode equal.Mode, x, y *NDBuffer, shape []int64) error {
	copies := [2]*NDBuffer{x, y}
	for i, a := range copies {
		if a == nil {
			continue
		}
		spread, err := a.BroadcastTo(shape...)
		if err != nil {
			return err
		}
		defer spread.Release()
		if copies[i], err = spread.inCOrder(); err != nil {
			return err
		}
		defer copies[i].Release()
	}
	return c.compare(p, mode, copies[0], copies[1], shape)
}

// equalVector is how many bytes the kernels of dense arrays compare at once.
const equalVector = 16

// launch queues a kernel. Its blocks stay until all elements are compared, so
// there are as many as run at once.
func (c *comparison) launch(p *equal.Plan, mode equal.Mode, x, y *NDBuffer, behind []int64) error {
	dev, ok := c.device.(*cudabuf.Device)
	if !ok {
		return fmt.Errorf("%s has no kernels: %w", c.device, arrowbuf.ErrDevice)
	}
	var with any = uintptr(0)
	misfit := uint64(0)
	if y != nil {
		with = y.at(behind[1])
		misfit = (x.address() + uint64(behind[0]) ^ y.address() + uint64(behind[1])) % equalVector
	}
	kernel, perBlock := "quiver_equal_"+mode.Name, int64(launch.Threads)
	if mode.Name != equal.Mixed.Name {
		dense := p.Axes == 0 || p.Axes == 1 && p.Axis[0].In == mode.Size && (y == nil || p.Axis[0].Out == mode.Size)
		if dense && misfit == 0 {
			kernel, perBlock = "quiver_equal_dense_"+mode.Name, 4*launch.Threads*equalVector/mode.Size
		} else {
			kernel, perBlock = "quiver_equal_nest_"+mode.Name, 4*launch.Threads
		}
	}
	blocks := min(ceilDiv(p.Elements, perBlock), int64(dev.Multiprocessors())*8)
	return launch.Queue(dev, equalProgram, kernel, cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: launch.Threads},
		x.at(behind[0]), with, c.word, launch.StructOf(p))
}

var equalProgram = launch.Program("elementwise/equal", func() map[string]cudabuf.HostKernel {
	twins := map[string]cudabuf.HostKernel{"quiver_equal_mixed": equalTwin(equal.Mixed)}
	for _, mode := range equal.Modes {
		nest := equalTwin(mode)
		twins["quiver_equal_dense_"+mode.Name] = func(l *cudabuf.HostLaunch) {
			if p := launch.Parameters[equal.Plan](l, 3); p.Constant == 0 && (l.Pointer(0)^l.Pointer(1))%equalVector != 0 {
				panic(fmt.Sprintf("arrays at %#x and %#x, whose vectors do not begin together", l.Pointer(0), l.Pointer(1)))
			}
			nest(l)
		}
		twins["quiver_equal_nest_"+mode.Name] = nest
	}
	return twins
}())

func equalTwin(mode equal.Mode) cudabuf.HostKernel {
	return func(l *cudabuf.HostLaunch) {
		p := launch.Parameters[equal.Plan](l, 3)
		sizeX, sizeY := mode.Size, mode.Size
		if mode.Name == equal.Mixed.Name {
			sizeX, sizeY = cpu.Type(p.TypeX).Size(), cpu.Type(p.TypeY).Size()
		}
		var stepsX, stepsY []int64
		for _, axis := range p.Axis[:p.Axes] {
			stepsX, stepsY = append(stepsX, axis.In), append(stepsY, axis.Out)
		}
		launch.MustAlign(l, 0, sizeX, stepsX...)
		lowX, highX, lowY, highY := p.Reach(mode.Size)
		y := unsafe.Pointer(&p.Pattern)
		if p.Constant == 0 {
			launch.MustAlign(l, 1, sizeY, stepsY...)
			y = launch.Reached(l, 1, lowY, highY)
		}
		if !mode.Arrays(&p, launch.Reached(l, 0, lowX, highX), y) {
			*(*int32)(launch.Reached(l, 2, 0, 4)) = 1
		}
	}
}
