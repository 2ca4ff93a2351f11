package ndview

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Assign writes a value to all elements: an *NDBuffer on any device that
// broadcasts to the shape of a; a Go slice of numbers or bools, which has one for
// each element, in C order, or broadcasts as an array of one axis; or what
// [ScalarOf] takes.
//
// Elements of arrays and slices, and strong scalars, are cast as AsType casts
// them by the rule "unsafe"; a weak scalar must be one that the type takes, see
// [Scalar.Bytes]. The value is read as if before the first write, so it may
// overlap a. Shapes that do not fit are ErrShape, types ErrDType, and times that the
// unit of a does not count ErrRange; nothing is written then.
func (a *NDBuffer) Assign(value any) error {
	if src, ok := value.(*NDBuffer); ok && src != nil {
		return a.assignArray(src)
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice {
		return a.assignSlice(v)
	}
	return a.Fill(value)
}

// assignArray is CopyFrom of an array of any type.
func (a *NDBuffer) assignArray(src *NDBuffer) error {
	if src.dtype == a.dtype {
		return a.CopyFrom(src)
	}
	release, err := holdToWrite(a, src)
	if err != nil {
		return err
	}
	defer release()
	if err := src.broadcastsTo(a.shape); err != nil {
		return err
	}
	if err := dtype.CheckCast(src.dtype, a.dtype); err != nil {
		return err
	}
	if a.Size() == 0 {
		return nil
	}
	var apart *NDBuffer
	switch {
	case timesApart(src.dtype, a.dtype) && !convertsAll(src.dtype, a.dtype):
		if apart, err = src.AsType(a.dtype, OrderK, CastUnsafe); err != nil {
			return err
		}
		defer apart.Release()
		return a.CopyFrom(apart)
	case !a.reaches(src):
		apart, err = src.on(a.Device())
	case MayShareMemory(a, src):
		apart, err = src.Copy(OrderK)
	default:
		return a.write(src)
	}
	if err != nil {
		return err
	}
	defer apart.Release()
	return a.write(apart)
}

// assignSlice uploads the slice as it is, and casts it where a is.
func (a *NDBuffer) assignSlice(v reflect.Value) error {
	shape := []int64{int64(v.Len())}
	if shape[0] == a.Size() {
		shape = a.shape
	} else if _, err := layout.Stretch(shape, shape, a.shape); err != nil {
		return fmt.Errorf("assigning %d values to %v: %w", v.Len(), a.shape, err)
	}
	src, err := fromSlice(a.Device(), v, shape)
	if err != nil {
		return err
	}
	defer src.Release()
	return a.assignArray(src)
}

// fromSlice copies a slice, which has as many elements as the shape, to a device.
func fromSlice(dev arrowbuf.Device, v reflect.Value, shape []int64) (*NDBuffer, error) {
	dtype, ok := dtypeOf(v.Type().Elem().Kind())
	if !ok {
		return nil, fmt.Errorf("a %s, which is no slice of numbers: %w", v.Type(), ErrDType)
	}
	raw := unsafe.Slice((*byte)(v.UnsafePointer()), product(shape)*dtype.Size())
	return fromBytes(dev, dtype, raw, shape...)
}

// assignable is what Assign takes as an array of a's dtype on its device, which
// the caller releases. It does not broadcast.
func (a *NDBuffer) assignable(value any) (*NDBuffer, error) {
	src, ok := value.(*NDBuffer)
	if ok && src == nil {
		value, ok = nil, false
	}
	if v := reflect.ValueOf(value); !ok && v.Kind() == reflect.Slice {
		made, err := fromSlice(a.Device(), v, []int64{int64(v.Len())})
		if err != nil {
			return nil, err
		}
		defer made.Release()
		src = made
	} else if !ok {
		return Full(a.Device(), a.dtype, value)
	}
	if src.Device() != a.Device() {
		moved, err := src.on(a.Device())
		if err != nil {
			return nil, err
		}
		defer moved.Release()
		src = moved
	}
	if src.dtype != a.dtype {
		return src.AsType(a.dtype, OrderC, CastUnsafe)
	}
	return src, src.hold()
}

// dtypeOf is the type of Go's values of a kind.
func dtypeOf(k reflect.Kind) (DType, bool) {
	switch k {
	case reflect.Int:
		k = reflect.Int64 - (64-strconv.IntSize)/32
	case reflect.Uint:
		k = reflect.Uint64 - (64-strconv.IntSize)/32
	}
	dtype, ok := map[reflect.Kind]DType{
		reflect.Bool: Bool, reflect.Int8: Int8, reflect.Int16: Int16, reflect.Int32: Int32, reflect.Int64: Int64,
		reflect.Uint8: Uint8, reflect.Uint16: Uint16, reflect.Uint32: Uint32, reflect.Uint64: Uint64,
		reflect.Float32: Float32, reflect.Float64: Float64, reflect.Complex64: Complex64, reflect.Complex128: Complex128,
	}[k]
	return dtype, ok
}

// on copies the elements to a new array, in C order, on another device.
func (a *NDBuffer) on(dev arrowbuf.Device) (*NDBuffer, error) {
	moved, err := newArray(dev, arrowbuf.Device.Alloc, a.dtype, a.shape, OrderC)
	if err != nil {
		return nil, err
	}
	if err := moved.CopyFrom(a); err != nil {
		moved.Release()
		return nil, err
	}
	return moved, nil
}

// FillWhere writes one value to the rows of a, its first axis, at which mask is
// true. The value is the 8 bytes of pattern, little-endian, repeated over the
// row: 0 zeroes it. Both arrays are C-contiguous and on one device; mask is of
// dtype bool and shape [rows].
func (a *NDBuffer) FillWhere(mask *NDBuffer, pattern uint64) error {
	release, err := holdToWrite(a, mask)
	if err != nil {
		return err
	}
	defer release()
	switch {
	case mask.dtype != Bool:
		return fmt.Errorf("a mask of dtype %s: %w", mask.dtype, ErrDType)
	case len(a.shape) == 0 || len(mask.shape) != 1 || mask.shape[0] != a.shape[0]:
		return fmt.Errorf("a mask of shape %v for rows of %v: %w", mask.shape, a.shape, ErrShape)
	case !a.IsContiguous() || !mask.IsContiguous():
		return fmt.Errorf("filling strides %v by a mask of strides %v: both must be C-contiguous: %w", a.strides, mask.strides, ErrShape)
	case mask.Device() != a.Device():
		return fmt.Errorf("a mask on %s for an array on %s: %w", mask.Device(), a.Device(), arrowbuf.ErrDevice)
	case a.Size() == 0:
		return nil
	}
	width := a.NBytes() / a.shape[0]
	if dst, ok := a.HostBytes(); ok {
		m, _ := mask.HostBytes()
		cpu.FillWhere(dst, m, width, pattern)
		return nil
	}
	return launchFillWhere(a, mask, width, pattern)
}

var maskProgram = launch.Program("index/fill_where", map[string]cudabuf.HostKernel{"quiver_fill_where": func(l *cudabuf.HostLaunch) {
	width, n := l.Int64(1), l.Int64(3)
	launch.MustAlignAt(l, 2, -int64(l.Uint32(4)), 16)
	cpu.FillWhere(l.Memory(l.Pointer(0), n*width), l.Memory(l.Pointer(2), n), width, l.Uint64(5))
}})

func launchFillWhere(a, mask *NDBuffer, width int64, pattern uint64) error {
	rows, turn := a.shape[0], int64(mask.address()%16)
	return launch.Items(a.Device(), maskProgram, "quiver_fill_where", rows+turn, 16,
		a.inOut(), width, mask.in(), rows, uint32(turn), pattern)
}

// keepsBits tells whether elements of one type become another as they are.
func keepsBits(from, to DType) bool {
	count := func(t DType) bool { return t.Kind() == KindInt || t.Kind() == KindUint || t.IsTime() }
	return from == to || from.Size() == to.Size() && count(from) && count(to) && !(from.Kind() == to.Kind() && from.IsTime())
}

// write writes the elements of src, which broadcasts to a, as the type that a
// has, which is castable. One device reaches both; they are held, and do not
// overlap.
func (a *NDBuffer) write(src *NDBuffer) error {
	switch {
	case a.Size() == 0:
		return nil
	case keepsBits(src.dtype, a.dtype):
		return a.copyStretched(over(src.buf, a.dtype, src.offset, src.shape, src.strides))
	case src.Size() < a.Size(): // cast each element once
		c, err := src.emptyLike(a.dtype, OrderK)
		if err != nil {
			return err
		}
		defer c.Release()
		if err := c.write(src); err != nil {
			return err
		}
		return a.copyStretched(c)
	case len(src.shape) != len(a.shape):
		skip := len(src.shape) - len(a.shape) // axes of extent 1
		shape, strides := slices.Clone(a.shape), make([]int64, len(a.shape))
		for i := max(-skip, 0); i < len(strides); i++ {
			strides[i] = src.strides[skip+i]
		}
		src = over(src.buf, src.dtype, src.offset, shape, strides)
	}
	if src.dtype.Kind() == a.dtype.Kind() && src.dtype.IsTime() {
		return a.retick(src)
	}
	return a.cast(src)
}

// cast writes the elements of an array of the same shape as another type. In
// layouts that have little in common they are copied to one that has, as the
// narrower type: copies between layouts go tile by tile, casts row by row.
func (a *NDBuffer) cast(src *NDBuffer) error {
	b := nestOf(a, src)
	switch {
	case b.alike() || a.Size() < 1<<12:
		return b.cast()
	case a.dtype.Size() >= src.dtype.Size():
		c, err := a.emptyLike(src.dtype, OrderK)
		if err != nil {
			return err
		}
		defer c.Release()
		if err := copyLayout(c, src); err != nil {
			return err
		}
		b = nestOf(a, c)
		return b.cast()
	default:
		c, err := src.emptyLike(a.dtype, OrderK)
		if err != nil {
			return err
		}
		defer c.Release()
		b = nestOf(c, src)
		if err := b.cast(); err != nil {
			return err
		}
		return copyLayout(a, c)
	}
}

// both is the nest of loops over two arrays, and where their elements begin.
type both struct {
	layout.Nest
	dst, src *NDBuffer
	out, in  int64 // bytes from the start of the buffers
}

func nestOf(dst, src *NDBuffer) both {
	n := layout.Collapse(dst.shape, dst.strides, src.strides)
	return both{n, dst, src, dst.offset + n.Offsets[0], src.offset + n.Offsets[1]}
}

// run is the number of elements where neither side has gaps.
func (b *both) run() (n int64, ok bool) {
	switch len(b.Shape) {
	case 0:
		return 1, true
	case 1:
		return b.Shape[0], b.Strides[0][0] == b.dst.dtype.Size() && b.Strides[1][0] == b.src.dtype.Size()
	}
	return 0, false
}

func (b *both) gapless() bool {
	_, ok := b.run()
	return ok
}

// alike tells whether the fastest axis of one side is the other's.
func (b *both) alike() bool {
	from := b.Strides[1]
	for _, s := range from {
		if last := from[len(from)-1]; max(s, -s) < max(last, -last) {
			return false
		}
	}
	return true
}

// aligned tells whether kernels may take elements whole.
func (b *both) aligned() bool {
	out, in := uint64(b.dst.buf.Address())+uint64(b.out), uint64(b.src.buf.Address())+uint64(b.in)
	for i := range b.Shape {
		out |= uint64(b.Strides[0][i])
		in |= uint64(b.Strides[1][i])
	}
	return out%uint64(b.dst.dtype.Size()) == 0 && in%uint64(b.src.dtype.Size()) == 0
}

// head is how many of n elements of gapless arrays lie before the first from which on
// both sides begin at whole vectors, which are 16 bytes of the wider elements.
func (b *both) head(n int64) (head int64, ok bool) {
	out, in := int64(b.dst.buf.Address())+b.out, int64(b.src.buf.Address())+b.in
	wide, narrow, wideSize, narrowSize := out, in, b.dst.dtype.Size(), b.src.dtype.Size()
	if narrowSize > wideSize {
		wide, narrow, wideSize, narrowSize = narrow, wide, narrowSize, wideSize
	}
	head = -wide & 15 / wideSize
	return head, head <= n && (wide+head*wideSize)%16 == 0 && (narrow+head*narrowSize)%(16/wideSize*narrowSize) == 0
}

// cast writes the elements of one side to the other, of which there are some.
func (b *both) cast() error {
	from, _ := b.src.dtype.CastCode()
	to, _ := b.dst.dtype.CastCode()
	n, gapless := b.run()
	dst, onHost := hostAt(b.dst.buf, b.out)
	if gapless && onHost {
		src, _ := hostAt(b.src.buf, b.in)
		cpu.Cast(dst, src, n, to, from)
		return nil
	}
	if gapless {
		if head, ok := b.head(n); ok {
			return b.launchCast(n, head, to, from)
		}
	}
	walk, err := cpu.NewWalk(b.Shape, b.Strides[1], nil, b.Strides[0])
	if err != nil {
		return fmt.Errorf("casting to strides %v: %w", b.dst.strides, err)
	}
	if onHost {
		src, _ := hostAt(b.src.buf, b.in)
		cpu.CastWalk(dst, src, walk, to, from)
		return nil
	}
	return b.launchWalk(walk, to, from)
}
