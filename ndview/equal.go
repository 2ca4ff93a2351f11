package ndview

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/equal"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/reduce"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// AllEqual reports whether every element equals the corresponding element of other, as
// zarr compares a chunk with the fill value. The operand other is an array on any
// device, or a value that ScalarOf accepts; nil equals nothing. The two broadcast
// together; if they cannot, AllEqual returns ErrShape. An empty array equals any
// operand.
//
// A float zero, as a scalar or an array of one element, equals only elements with the
// bits of that zero: -0.0 differs from 0.0. Otherwise numbers compare as by NumPy's
// ==, after promotion, with integers of either sign compared exactly. If equalNaN is
// set, a NaN equals every NaN, and NaT equals NaT.
//
// Records compare field by field, where NaNs are never equal; bytes compare bitwise.
// Times of different units compare in their common unit, to which arrays are copied; a
// time that this unit cannot represent equals none that it can. AllEqual returns
// ErrDType for types that do not compare, such as a time and a float.
//
// On a GPU this is one pass that stops soon after a difference, and a copy of four
// bytes to the host. An operand of one element of another type is copied to the host
// first.
func (a *NDBuffer) AllEqual(other any, equalNaN bool) (_ bool, err error) {
	defer nameError("AllEqual", &err)
	if err := checkNil(a); err != nil {
		return false, err
	}
	if err := a.TryRetain(); err != nil {
		return false, err
	}
	defer a.Release()
	switch b := other.(type) {
	case nil:
		return false, nil
	case *NDBuffer:
		if b == nil {
			return false, nil
		}
		return a.allEqualArray(b, equalNaN)
	}
	s, err := ScalarOf(other)
	if err != nil {
		return false, err
	}
	if s.IsWeak() && s.Natural().IsInteger() && a.dtype == BFloat16 { // bfloat16 has no common type with int64
		own := Int8
		if below, above := beyondType(s, own); below || above {
			own = Float64
		}
		if s, err = NewScalar(own, s); err != nil {
			return false, err
		}
	}
	return a.allEqualScalar(s, a.shape, equalNaN)
}

func (a *NDBuffer) allEqualArray(b *NDBuffer, equalNaN bool) (bool, error) {
	if err := b.TryRetain(); err != nil {
		return false, err
	}
	defer b.Release()
	shape, err := layout.Broadcast(a.shape, b.shape)
	if err != nil {
		return false, err
	}
	if product(shape) == 0 {
		_, err := comparisonType(a.dtype, b.dtype)
		return err == nil, err
	}
	if unitsDiffer(a.dtype, b.dtype) && b.Size() != 1 {
		return a.allEqualTimeArray(b, equalNaN)
	}
	if b.Size() == 1 && b.dtype != a.dtype || b.Size() == 1 && b.dtype.IsFloat() {
		raw, err := b.Bytes()
		if err != nil {
			return false, err
		}
		scalar, err := NewScalar(b.dtype, raw)
		if err != nil {
			return false, err
		}
		return a.allEqualScalar(scalar, shape, equalNaN)
	}
	if b, err = b.onDevice(a.Device()); err != nil {
		return false, err
	}
	defer b.Release()
	if _, err := comparisonType(a.dtype, b.dtype); err != nil {
		return false, err
	}
	c, err := newComparison(a.Device())
	if err != nil {
		return false, err
	}
	defer c.release()
	if err := c.compareValues(a, b, shape, equalNaN); err != nil {
		return false, err
	}
	return c.result()
}

// comparisonType returns the type in which elements of two types are compared.
func comparisonType(a, b DType) (DType, error) {
	if a == b {
		return a, nil
	}
	if unitsDiffer(a, b) {
		return Promote(a, b)
	}
	_, numberA := a.NumberCode()
	_, numberB := b.NumberCode()
	if !numberA || !numberB {
		return DType{}, fmt.Errorf("comparing %s with %s: %w", a, b, ErrDType)
	}
	return Promote(a, b)
}

// isZeroFloat reports whether the bytes of a float are a zero of either sign.
func isZeroFloat(raw string) bool {
	last := len(raw) - 1
	return strings.Trim(raw[:last], "\x00") == "" && raw[last]&0x7f == 0
}

// allEqualScalar compares with one value; shape is the broadcast shape of both.
func (a *NDBuffer) allEqualScalar(s Scalar, shape []int64, equalNaN bool) (bool, error) {
	own := s.Natural()
	if own.IsFloat() && isZeroFloat(s.Raw()) && a.dtype.Kind() != KindBytes && a.dtype.Kind() != KindRecord {
		raw, err := s.Strong().Bytes(a.dtype)
		if err != nil {
			return false, err
		}
		return a.equalsValue(raw, a.dtype, true, equalNaN)
	}
	if own.Kind() == KindBytes && a.dtype.Kind() == KindBytes {
		// A shorter value is padded with zeros; a longer one must end in zeros.
		raw := make([]byte, max(own.Size(), a.dtype.Size()))
		copy(raw, s.Raw())
		if slices.ContainsFunc(raw[a.dtype.Size():], func(b byte) bool { return b != 0 }) {
			return product(shape) == 0, nil
		}
		return a.equalsValue(raw[:a.dtype.Size()], a.dtype, false, equalNaN)
	}
	if unitsDiffer(a.dtype, own) {
		return a.allEqualTimeScalar(s, equalNaN)
	}
	common, err := comparisonType(a.dtype, own)
	switch {
	case err != nil:
		return false, err
	case product(shape) == 0:
		return true, nil
	case common == a.dtype && common == own:
		return a.equalsValue([]byte(s.Raw()), own, false, equalNaN)
	case a.dtype.IsInteger() && a.dtype.Size() == 8 && !own.IsInteger():
		// Several integers convert to the same float.
		return a.equalsValue([]byte(s.Raw()), own, false, equalNaN)
	}
	// Elements are exact in the common type, so only a value that a's type represents
	// exactly can equal one.
	raw, err := s.Strong().Bytes(a.dtype)
	if err != nil {
		return false, err
	}
	value, err := fromBytes(arrowbuf.CPU(), a.dtype, raw)
	if err != nil {
		return false, err
	}
	defer value.Release()
	if exact, err := value.equalsValue([]byte(s.Raw()), own, false, true); err != nil || !exact {
		return false, err
	}
	return a.equalsValue(raw, a.dtype, false, equalNaN)
}

// equalsValue compares all elements with one value of a type, by bits or as numbers.
func (a *NDBuffer) equalsValue(raw []byte, dtype DType, byBits, equalNaN bool) (bool, error) {
	if a.Size() == 0 {
		return true, nil
	}
	c, err := newComparison(a.Device())
	if err != nil {
		return false, err
	}
	defer c.release()
	if n := len(raw); n <= 16 && n&(n-1) == 0 && dtype.Kind() != KindRecord {
		err = c.compareScalar(a, raw, dtype, byBits, equalNaN)
	} else {
		var value *NDBuffer
		if value, err = fromBytes(a.Device(), dtype, raw); err != nil {
			return false, err
		}
		defer value.Release()
		err = c.compareValues(a, value, a.shape, equalNaN)
	}
	if err != nil {
		return false, err
	}
	return c.result()
}

// Equal reports whether two arrays, on any devices, have the same dtype, the same
// shape and the same bits in every element. If one of them is on the CPU, the
// comparison runs on the device of the other, otherwise on that of a.
func (a *NDBuffer) Equal(b *NDBuffer) (_ bool, err error) {
	defer nameError("Equal", &err)
	if err := checkNil(a, b); err != nil {
		return false, err
	}
	release, err := retainAll(a, b)
	if err != nil {
		return false, err
	}
	defer release()
	if a.dtype != b.dtype || !slices.Equal(a.shape, b.shape) {
		return false, nil
	}
	if a.Size() == 0 {
		return true, nil
	}
	dev := a.Device()
	if dev == arrowbuf.CPU() {
		dev = b.Device()
	}
	if a, err = a.onDevice(dev); err != nil {
		return false, err
	}
	defer a.Release()
	if b, err = b.onDevice(dev); err != nil {
		return false, err
	}
	defer b.Release()
	c, err := newComparison(dev)
	if err != nil {
		return false, err
	}
	defer c.release()
	if err := c.compareBits(a, b, a.shape); err != nil {
		return false, err
	}
	return c.result()
}

// unitsDiffer reports whether two types are times of one kind in different units.
func unitsDiffer(a, b DType) bool { return a.IsTime() && a.Kind() == b.Kind() && a != b }

// allEqualTimeArray compares with an array in another unit: both are copied to their
// common unit. If only one of them has a time that this unit cannot represent, they
// differ. The broadcast shape must not be empty.
func (a *NDBuffer) allEqualTimeArray(b *NDBuffer, equalNaN bool) (bool, error) {
	common, err := Promote(a.dtype, b.dtype)
	if err != nil {
		return false, err
	}
	x, errX := a.asType(common, OrderK, CastUnsafe)
	if errX == nil {
		defer x.Release()
	}
	y, errY := b.asType(common, OrderK, CastUnsafe)
	if errY == nil {
		defer y.Release()
	}
	switch {
	case errX == nil && errY == nil:
		return x.allEqualArray(y, equalNaN)
	case errX == nil && errors.Is(errY, ErrRange), errY == nil && errors.Is(errX, ErrRange):
		return false, nil
	}
	return false, errors.Join(errX, errY)
}

// allEqualTimeScalar compares with one time in another unit. No element equals a time
// that the unit of a cannot represent.
func (a *NDBuffer) allEqualTimeScalar(s Scalar, equalNaN bool) (bool, error) {
	if _, err := Promote(a.dtype, s.Natural()); err != nil {
		return false, err
	}
	raw, err := s.Bytes(a.dtype)
	if errors.Is(err, ErrRange) {
		return a.Size() == 0, nil
	}
	if err != nil {
		return false, err
	}
	element, err := NewScalar(a.dtype, raw)
	if err != nil {
		return false, err
	}
	back, err := element.Bytes(s.Natural())
	if err != nil || string(back) != s.Raw() {
		return a.Size() == 0, err
	}
	return a.equalsValue(raw, a.dtype, false, equalNaN)
}

// comparison is the result of comparing arrays on one device. On a GPU, kernels set a
// word on the device if an element differs.
type comparison struct {
	device  arrowbuf.Device
	word    *cudabuf.Buffer // nil on the host
	unequal bool            // on the host
}

func newComparison(dev arrowbuf.Device) (*comparison, error) {
	c := &comparison{device: dev}
	cuda, ok := arrowbuf.As[*cudabuf.Device](dev)
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

func (c *comparison) release() {
	if c.word != nil {
		c.word.Release()
	}
}

// result waits for the comparisons and reports whether all elements were equal.
func (c *comparison) result() (bool, error) {
	if c.word == nil {
		return !c.unequal, nil
	}
	var word [4]byte
	_, err := c.word.CopyToHost(word[:], 0)
	return word == [4]byte{}, err
}

// compareValues compares the values of x and y, which broadcast to the shape.
func (c *comparison) compareValues(x, y *NDBuffer, shape []int64, equalNaN bool) error {
	typeX, isNumber := x.dtype.NumberCode()
	p := &equal.Plan{NaNEqual: boolToInt(equalNaN), TypeX: uint8(typeX)}
	mode, byValue := equal.ByValue[typeX]
	switch {
	case x.dtype != y.dtype:
		typeY, _ := y.dtype.NumberCode()
		p.TypeY = uint8(typeY)
		return c.compareElements(p, equal.Mixed, x, y, shape)
	case isNumber && byValue:
		return c.compareElements(p, mode, x, y, shape)
	case x.dtype.IsTime() && !equalNaN:
		return c.compareElements(p, equal.Times, x, y, shape)
	case x.dtype.Kind() == KindRecord:
		return c.compareFields(x, y, shape)
	}
	return c.compareBits(x, y, shape)
}

// compareScalar compares the elements of x with one value, by bits or as numbers. The
// size of the value's type must be a power of 2.
func (c *comparison) compareScalar(x *NDBuffer, raw []byte, dtype DType, byBits, equalNaN bool) error {
	p := &equal.Plan{Constant: 1, NaNEqual: boolToInt(equalNaN)}
	pattern := slices.Repeat(raw, 16/len(raw))
	p.Pattern = [2]uint64{binary.NativeEndian.Uint64(pattern), binary.NativeEndian.Uint64(pattern[8:])}
	mode := equal.Bitwise(x.dtype.Size())
	typeX, isNumber := x.dtype.NumberCode()
	byValue, ok := equal.ByValue[typeX]
	switch {
	case byBits:
	case dtype != x.dtype:
		typeY, _ := dtype.NumberCode()
		p.TypeX, p.TypeY = uint8(typeX), uint8(typeY)
		mode = equal.Mixed
	case isNumber && ok:
		mode = byValue
	case dtype.IsTime() && !equalNaN:
		mode = equal.Times
	}
	return c.compareElements(p, mode, x, nil, x.shape)
}

// compareFields compares records field by field.
func (c *comparison) compareFields(x, y *NDBuffer, shape []int64) error {
	for _, f := range x.dtype.Fields() {
		fx, err := x.fieldView(f, len(shape))
		if err != nil {
			return err
		}
		defer fx.Release()
		fy, err := y.fieldView(f, len(shape))
		if err != nil {
			return err
		}
		defer fy.Release()
		if err := c.compareValues(fx, fy, append(slices.Clone(shape), f.Shape...), false); err != nil {
			return err
		}
	}
	return nil
}

// fieldView returns a view of one field of records. It has n axes, of which missing
// leading ones have extent 1, and then those of the field.
func (a *NDBuffer) fieldView(f Field, n int) (*NDBuffer, error) {
	missing := n - len(a.shape)
	shape := slices.Concat(slices.Repeat([]int64{1}, missing), a.shape, f.Shape)
	strides := slices.Concat(make([]int64, missing), a.strides, layout.CStrides(f.DType.Size(), f.Shape))
	return a.view(f.DType, a.offset+f.Offset, shape, strides)
}

// compareBits compares elements of one size by their bits, in the largest units that
// divide the size and all addresses.
func (c *comparison) compareBits(x, y *NDBuffer, shape []int64) error {
	size := x.dtype.Size()
	unit := int64(1) << bits.TrailingZeros64(uint64(size)|16|x.addressBits()|y.addressBits())
	if unit == size {
		return c.compareElements(&equal.Plan{}, equal.Bitwise(unit), x, y, shape)
	}
	units := Field{DType: Bytes(int32(unit)), Shape: []int64{size / unit}}
	ux, err := x.fieldView(units, len(shape))
	if err != nil {
		return err
	}
	defer ux.Release()
	uy, err := y.fieldView(units, len(shape))
	if err != nil {
		return err
	}
	defer uy.Release()
	return c.compareElements(&equal.Plan{}, equal.Bitwise(unit), ux, uy, append(slices.Clone(shape), size/unit))
}

// compareElements compares x with y, or with the plan's pattern if y is nil.
func (c *comparison) compareElements(p *equal.Plan, mode equal.Mode, x, y *NDBuffer, shape []int64) error {
	if c.word != nil && x.addressBits()%uint64(x.dtype.Size()) != 0 {
		aligned, err := x.copy(OrderC)
		if err != nil {
			return err
		}
		defer aligned.Release()
		x = aligned
	}
	if c.word != nil && y != nil && y.addressBits()%uint64(y.dtype.Size()) != 0 {
		aligned, err := y.copy(OrderC)
		if err != nil {
			return err
		}
		defer aligned.Release()
		y = aligned
	}
	stepX, err := layout.BroadcastStrides(x.shape, x.strides, shape)
	if err != nil {
		return err
	}
	stepY := make([]int64, len(shape))
	if y != nil {
		if stepY, err = layout.BroadcastStrides(y.shape, y.strides, shape); err != nil {
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
		c.unequal = c.unequal || !mode.EqualArrays(p, unsafe.Add(from, nest.Offsets[0]), with)
		return nil
	}
	return c.launchKernel(p, mode, x, y, nest.Offsets)
}

// compareCopies compares contiguous copies of x and of y, which may be nil. It is for
// layouts with more axes, after collapsing, than a plan has.
func (c *comparison) compareCopies(p *equal.Plan, mode equal.Mode, x, y *NDBuffer, shape []int64) error {
	copies := [2]*NDBuffer{x, y}
	for i, a := range copies {
		if a == nil {
			continue
		}
		broadcast, err := a.broadcastTo(shape...)
		if err != nil {
			return err
		}
		defer broadcast.Release()
		if copies[i], err = broadcast.inCOrder(); err != nil {
			return err
		}
		defer copies[i].Release()
	}
	return c.compareElements(p, mode, copies[0], copies[1], shape)
}

// equalVector is the number of bytes that the kernels of contiguous arrays compare at
// once.
const equalVector = 16

// launchKernel enqueues a kernel. Its blocks loop until all elements are compared, so
// the grid has as many blocks as run at once.
func (c *comparison) launchKernel(p *equal.Plan, mode equal.Mode, x, y *NDBuffer, offsets []int64) error {
	dev, ok := arrowbuf.As[*cudabuf.Device](c.device)
	if !ok {
		return fmt.Errorf("%s has no kernels: %w", c.device, arrowbuf.ErrDevice)
	}
	var with any = uintptr(0)
	misaligned := uint64(0)
	if y != nil {
		with = y.at(offsets[1])
		misaligned = (x.address() + uint64(offsets[0]) ^ y.address() + uint64(offsets[1])) % equalVector
	}
	kernel, perBlock := "quiver_equal_"+mode.Name, int64(launch.Threads)
	if mode.Name != equal.Mixed.Name {
		dense := p.Axes == 0 || p.Axes == 1 && p.Axis[0].In == mode.Size && (y == nil || p.Axis[0].Out == mode.Size)
		if dense && misaligned == 0 {
			kernel, perBlock = "quiver_equal_dense_"+mode.Name, 4*launch.Threads*equalVector/mode.Size
		} else {
			kernel, perBlock = "quiver_equal_nest_"+mode.Name, 4*launch.Threads
		}
	}
	blocks := min(ceilDiv(p.Elements, perBlock), int64(dev.Multiprocessors())*8)
	return launch.Queue(dev, equalProgram, kernel, cudabuf.Dim3{X: uint32(blocks)}, cudabuf.Dim3{X: launch.Threads},
		x.at(offsets[0]), with, c.word, launch.StructBytes(p))
}

var equalProgram = launch.Program("elementwise/equal", func() map[string]cudabuf.HostKernel {
	hostKernels := map[string]cudabuf.HostKernel{"quiver_equal_mixed": equalHostKernel(equal.Mixed)}
	for _, mode := range equal.Modes {
		nest := equalHostKernel(mode)
		hostKernels["quiver_equal_dense_"+mode.Name] = func(l *cudabuf.HostLaunch) {
			if p := launch.StructArg[equal.Plan](l, 3); p.Constant == 0 && (l.Pointer(0)^l.Pointer(1))%equalVector != 0 {
				panic(fmt.Sprintf("arrays at %#x and %#x differ in their alignment to vectors", l.Pointer(0), l.Pointer(1)))
			}
			nest(l)
		}
		hostKernels["quiver_equal_nest_"+mode.Name] = nest
	}
	return hostKernels
}())

// equalHostKernel returns the host implementation of the kernels of a mode.
func equalHostKernel(mode equal.Mode) cudabuf.HostKernel {
	return func(l *cudabuf.HostLaunch) {
		p := launch.StructArg[equal.Plan](l, 3)
		sizeX, sizeY := mode.Size, mode.Size
		if mode.Name == equal.Mixed.Name {
			sizeX, sizeY = cpu.Type(p.TypeX).Size(), cpu.Type(p.TypeY).Size()
		}
		var stepsX, stepsY []int64
		for _, axis := range p.Axis[:p.Axes] {
			stepsX, stepsY = append(stepsX, axis.In), append(stepsY, axis.Out)
		}
		launch.MustAlign(l, 0, sizeX, stepsX...)
		lowX, highX, lowY, highY := p.ByteBounds(mode.Size)
		y := unsafe.Pointer(&p.Pattern)
		if p.Constant == 0 {
			launch.MustAlign(l, 1, sizeY, stepsY...)
			y = launch.PointerArg(l, 1, lowY, highY)
		}
		if !mode.EqualArrays(&p, launch.PointerArg(l, 0, lowX, highX), y) {
			*(*int32)(launch.PointerArg(l, 2, 0, 4)) = 1
		}
	}
}
