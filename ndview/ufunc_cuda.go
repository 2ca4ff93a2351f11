package ndview

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf"
	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/half"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// form is how the kernels of kernels/family.cuh come to their operands.
type form byte

const (
	dense form = iota
	rowwise
	nested
	forms
)

// How they come to one of them, as kernels/nest.cuh has it.
const (
	kindScalar = iota
	kindRun
	kindSame
	kindGather
)

// denseLaunch is Dense of kernels/nest.cuh.
type denseLaunch struct {
	elements int64
	op       int32
	kind     [4]int32
	_        int32
	scalar   [3][2]uint64
}

// hasDense tells whether the family has a kernel for gapless arrays.
func (f family) hasDense(t ew.Type) bool {
	return f != familyMath || t == ew.Float32 || t == ew.Float64
}

// isDense tells whether the kernels for gapless arrays do the call.
func (c *call) isDense() bool {
	out := c.out
	if !out.contiguous || !c.family.hasDense(c.kernel) || out.dtype != c.result {
		return false
	}
	start := int64(out.buf.Address()) + out.offset
	end := start + out.NBytes()
	if start&(c.vector*out.dtype.Size()-1) != 0 {
		return false
	}
	for i := range c.n {
		a := c.in[i].array
		if a == nil {
			continue
		}
		if !a.contiguous || !slices.Equal(a.shape, out.shape) || c.typeOf(1+i).Bits() != c.op.Operand(i, c.kernel).Bits() {
			return false
		}
		at := int64(a.buf.Address()) + a.offset
		if at&(c.vector*a.dtype.Size()-1) != 0 {
			return false
		}
		if at < end && start < at+a.NBytes() && (at != start || a.dtype.Size() != out.dtype.Size()) {
			return false
		}
	}
	return true
}

func (c *call) launchDense(dev *cudabuf.Device) error {
	if c.out.size == 0 {
		return nil
	}
	p := denseLaunch{elements: c.out.size, op: int32(c.op)}
	p.kind[0] = kindRun
	offset := [4]int64{c.out.offset}
	for i := range c.n {
		if a := c.in[i].array; a != nil {
			p.kind[1+i] = kindRun
			offset[1+i] = a.offset
		} else {
			p.scalar[i] = c.in[i].bits
		}
	}
	return c.launch(dev, dense, (p.elements-1)/c.vector+1, &offset, launch.StructOf(&p))
}

// familyThreads is the size of a block of kernels/family.cuh.
const familyThreads = 128

// launch queues a kernel of the call.
func (c *call) launch(dev *cudabuf.Device, f form, items int64, offset *[4]int64, parameters []byte) error {
	k, err := c.family.kernel(dev, c.kernel, f)
	if err != nil {
		return err
	}
	stream, err := dev.DefaultStream()
	if err != nil {
		return err
	}
	if c.twoVectors(f) {
		items = (items + 1) / 2
	}
	grid, block := cudabuf.Dim3{X: uint32((items-1)/familyThreads + 1)}, cudabuf.Dim3{X: familyThreads}
	to := cudabuf.InOut(c.out.buf.(*cudabuf.Buffer), offset[0])
	x, y := c.pointer(0, offset), c.pointer(1, offset)
	if c.n < 3 {
		return k.LaunchAsync(stream, grid, block, 0, to, x, y, parameters)
	}
	return k.LaunchAsync(stream, grid, block, 0, to, x, y, c.pointer(2, offset), parameters)
}

// pointer is operand i for a kernel. What it does not read may be any.
func (c *call) pointer(i int, offset *[4]int64) cudabuf.Pointer {
	if a := c.in[i].array; i < c.n && a != nil {
		return cudabuf.In(a.buf.(*cudabuf.Buffer), offset[1+i])
	}
	return cudabuf.In(c.out.buf.(*cudabuf.Buffer), 0)
}

// twoVectors tells whether a thread takes two vectors, as family.cuh has it:
// where the result is small, and in rows of complex numbers.
func (c *call) twoVectors(f form) bool {
	small := c.op.Result(c.kernel).Size() < c.kernel.Size()
	return f != nested && small || f == rowwise && c.n < 3 && c.kernel >= ew.Complex64
}

// kernelSlot remembers a kernel on the devices that have used it.
type kernelSlot [4]atomic.Pointer[loadedKernel]

type loadedKernel struct {
	dev    *cudabuf.Device
	kernel *cudabuf.Kernel
}

func (s *kernelSlot) on(dev *cudabuf.Device, find func() (*cudabuf.Kernel, error)) (*cudabuf.Kernel, error) {
	slot := &s[dev.ID()&int64(len(s)-1)]
	if l := slot.Load(); l != nil && l.dev == dev {
		return l.kernel, nil
	}
	k, err := find()
	if err != nil {
		return nil, err
	}
	slot.Store(&loadedKernel{dev, k})
	return k, nil
}

// nestLaunch is Nest of kernels/nest.cuh, which says what the fields are.
type nestLaunch struct {
	scalar       [3][2]uint64
	inner, outer [4]int32
	middle       [4][middleAxes]int32
	extent       [middleAxes]uint32
	magic        [middleAxes + 1]uint32
	shift        [middleAxes + 1]uint8
	middles      uint8
	kind         [4]int32
	types        [4]uint8
	row          uint32
	perRow       uint32
	items        uint32
	op           int32
}

// middleAxes are those between the outer and the inner one.
const middleAxes = ew.MaxAxes - 2

// launchNest launches one kernel, or several where the nest has more elements or
// larger steps than 31 bits count.
func (c *call) launchNest(dev *cudabuf.Device, n jointNest) error {
	axes := len(n.shape)
	inner, rows := int64(1), int64(1)
	for a, d := range n.shape {
		for o := range 1 + c.n {
			if s := n.strides[o][a]; max(s, -s) > maxStep {
				return c.along(n, a)
			}
		}
		if inner = d; a < axes-1 {
			rows *= d
		}
	}
	v := min(c.vector, fewElements)
	if c.family == familyMath {
		v = 1
	}
	if inner > maxVectors || rows > maxVectors/((inner-1)/v+1) {
		return c.halves(dev, n)
	}
	if c.family != familyMath {
		if p, ok := c.describe(n, inner, rows, c.vector); ok {
			return c.launch(dev, rowwise, int64(p.items), &n.offset, launch.StructOf(&p))
		}
	}
	p, _ := c.describe(n, inner, rows, v)
	return c.launch(dev, nested, int64(p.items), &n.offset, launch.StructOf(&p))
}

// fewElements is how many elements of the form nested are a vector at most.
const fewElements = 4

// describe makes the parameters of a launch that takes vectors of v elements, and
// tells whether it takes whole rows of them, so that the form rowwise does.
func (c *call) describe(n jointNest, inner, rows, v int64) (p nestLaunch, inRows bool) {
	axes := len(n.shape)
	perRow := (inner-1)/v + 1
	p = nestLaunch{op: int32(c.op), row: uint32(inner), perRow: uint32(perRow), items: uint32(rows * perRow)}
	p.magic[middleAxes], p.shift[middleAxes] = divider(p.perRow)
	for k := range max(axes-2, 0) {
		p.extent[k] = uint32(n.shape[axes-2-k])
		p.magic[k], p.shift[k] = divider(p.extent[k])
		p.middles++
	}
	c.place(&p, n, 0, c.out, c.op.Result(c.kernel), v)
	inRows = inner%v == 0 && p.kind[0] == kindRun
	for i := range c.n {
		a := c.in[i].array
		if a == nil {
			p.scalar[i] = c.kernelScalar(i)
			continue
		}
		c.place(&p, n, 1+i, a, c.op.Operand(i, c.kernel), v)
		inRows = inRows && p.kind[1+i] != kindGather
	}
	return p, inRows
}

// kernelScalar is the scalar that is operand i, as an element of what the kernel
// computes in: a half that has been rounded already where that is float32.
func (c *call) kernelScalar(i int) [2]uint64 {
	bits := c.in[i].bits
	if c.kernel == c.compute {
		return bits
	}
	f := half.BFloat16ToFloat32(uint16(bits[0]))
	if c.compute == ew.Float16 {
		f = half.Float16ToFloat32(uint16(bits[0]))
	}
	return [2]uint64{uint64(math.Float32bits(f))}
}

// place describes an operand, and how the kernel comes to its elements in vectors
// of v.
func (c *call) place(p *nestLaunch, n jointNest, o int, a *NDBuffer, t ew.Type, v int64) {
	own := c.typeOf(o)
	p.types[o] = uint8(own)
	size := a.dtype.Size()
	steps := n.strides[o]
	last := len(steps) - 1
	align := int64(a.buf.Address()) + n.offset[o]
	p.inner[o] = int32(size)
	for k, step := range steps {
		switch {
		case k == last:
			p.inner[o] = int32(step)
			continue
		case k == 0:
			p.outer[o] = int32(step)
		default:
			p.middle[o][last-1-k] = int32(step)
		}
		align |= step
	}
	same := own.Bits() == t.Bits()
	whole := last <= 0 || int64(p.row)%v == 0 // no vector but the last ends within a row
	switch {
	case same && whole && int64(p.inner[o]) == size && align&(v*size-1) == 0:
		p.kind[o] = kindRun
	case same && p.inner[o] == 0 && o > 0:
		p.kind[o] = kindSame
	default:
		p.kind[o] = kindGather
	}
}

// maxVectors is how many a launch has at most, with room for those that the last
// block has no work for, and maxStep what steps along an axis are at most.
var maxVectors, maxStep int64 = 1<<31 - 1 - 2*familyThreads, 1<<31 - 1

// halves launches a nest in two parts, of its longest axis.
func (c *call) halves(dev *cudabuf.Device, n jointNest) error {
	axis := 0
	for a, d := range n.shape {
		if d > n.shape[axis] {
			axis = a
		}
	}
	half := n.shape[axis] / 2
	if half > 1<<20 {
		half &^= 1<<20 - 1 // vectors stay aligned
	}
	first, second := n, n
	first.shape, second.shape = slices.Clone(n.shape), slices.Clone(n.shape)
	first.shape[axis], second.shape[axis] = half, n.shape[axis]-half
	for o := range 1 + c.n {
		second.offset[o] += half * n.strides[o][axis]
	}
	if err := c.launchNest(dev, first); err != nil {
		return err
	}
	return c.launchNest(dev, second)
}

// divider makes n/d of n < 2^31 a product and a shift: (n*magic>>32 + n) >> shift.
func divider(d uint32) (magic uint32, shift uint8) {
	shift = uint8(bits.Len32(d - 1))
	return uint32((uint64(1)<<shift-uint64(d))<<32/uint64(d)) + 1, shift
}

// family is operations that share kernels, one for each type.
type family byte

const (
	familyArithmetic family = iota
	familyCompare
	familyMath // what costs more than the memory
	familyWhere
	familyClip
	familyParts // the result is a part of a complex number
	families
)

var familyNames = [families]string{"arithmetic", "compare", "math", "where", "clip", "parts"}

func (c *call) chooseFamily() family {
	switch {
	case c.op == ew.Clip:
		return familyClip
	case c.op.Boolean():
		return familyCompare
	case c.op.Real() && c.compute >= ew.Complex64:
		return familyParts
	case c.op >= ew.TimeDivide && c.op <= ew.Arctanh, c.op == ew.Angle,
		c.op == ew.Reciprocal && c.compute < ew.Float16,
		c.op == ew.Sqrt && c.compute >= ew.Complex64:
		return familyMath
	}
	return familyArithmetic
}

var typeNames = [ew.Types]string{
	ew.Int8: "i8", ew.Uint8: "u8", ew.Int16: "i16", ew.Uint16: "u16", ew.Int32: "i32", ew.Uint32: "u32",
	ew.Int64: "i64", ew.Uint64: "u64", ew.Float16: "f16", ew.BFloat16: "bf16", ew.Float32: "f32", ew.Float64: "f64",
	ew.Complex64: "c64", ew.Complex128: "c128",
}

var (
	integerTypes = []ew.Type{ew.Int8, ew.Uint8, ew.Int16, ew.Uint16, ew.Int32, ew.Uint32, ew.Int64, ew.Uint64}
	floatTypes   = []ew.Type{ew.Float16, ew.BFloat16, ew.Float32, ew.Float64}
	complexTypes = []ew.Type{ew.Complex64, ew.Complex128}
)

var (
	arithmeticInt   = launch.Program("arithmetic_int", twinsOf(integerTypes, familyArithmetic))
	arithmeticFloat = launch.Program("arithmetic_float", twinsOf(floatTypes, familyArithmetic))
	compareProgram  = launch.Program("compare", twinsOf(slices.Concat(integerTypes, floatTypes), familyCompare))
	divideProgram   = launch.Program("divide", twinsOf(integerTypes, familyMath))
	mathProgram     = launch.Program("math", twinsOf(floatTypes[2:], familyMath))
	whereProgram    = launch.Program("where", whereTwins())
	complexMath     = launch.Program("complex_math", twinsOf(complexTypes, familyMath))
	complexProgram  = launch.Program("complex", twinsOf(complexTypes, familyArithmetic, familyCompare, familyParts))
)

func whereTwins() map[string]cudabuf.HostKernel {
	twins := twinsOf(slices.Concat(integerTypes, floatTypes), familyClip)
	maps.Copy(twins, twinsOf(slices.Concat(integerTypes, floatTypes, complexTypes), familyWhere))
	return twins
}

// programOf is where the kernels of a family for a type are.
func programOf(f family, t ew.Type) *cudabuf.Program {
	switch {
	case f == familyWhere || f == familyClip:
		return whereProgram
	case t >= ew.Complex64 && f == familyMath:
		return complexMath
	case t >= ew.Complex64:
		return complexProgram
	case f == familyCompare:
		return compareProgram
	case f == familyMath && t >= ew.Float16:
		return mathProgram
	case f == familyMath:
		return divideProgram
	case t >= ew.Float16:
		return arithmeticFloat
	}
	return arithmeticInt
}

func (f family) name(t ew.Type, as form) string {
	return "quiver_" + familyNames[f] + "_" + typeNames[t] + [forms]string{"_dense", "_rows", "_nest"}[as]
}

var kernelSlots [families][ew.Types][forms]kernelSlot

// kernel is the one of the family for a type, on a device.
func (f family) kernel(dev *cudabuf.Device, t ew.Type, as form) (*cudabuf.Kernel, error) {
	return kernelSlots[f][t][as].on(dev, func() (*cudabuf.Kernel, error) {
		name := f.name(t, as)
		k, err := dev.Kernel(programOf(f, t), name)
		if err != nil {
			return nil, fmt.Errorf("loading kernel %s: %w", name, err)
		}
		return k, nil
	})
}

func twinsOf(types []ew.Type, of ...family) map[string]cudabuf.HostKernel {
	twins := map[string]cudabuf.HostKernel{}
	for _, f := range of {
		for _, t := range types {
			if f.hasDense(t) {
				twins[f.name(t, dense)] = func(l *cudabuf.HostLaunch) { denseTwin(l, t) }
			}
			if f != familyMath {
				twins[f.name(t, rowwise)] = func(l *cudabuf.HostLaunch) { nestTwin(l, t, 16) }
			}
			few := int64(fewElements)
			if f == familyMath {
				few = 1
			}
			twins[f.name(t, nested)] = func(l *cudabuf.HostLaunch) { nestTwin(l, t, few) }
		}
	}
	return twins
}

// denseTwin and nestTwin do a launch by the loops of the CPU device, nestTwin one
// whose vectors have so many elements at most.
func denseTwin(l *cudabuf.HostLaunch, t ew.Type) {
	p := launch.Parameters[denseLaunch](l, l.Args()-1)
	w := ew.Work{Op: ew.Op(p.op), Type: t, Axes: 1}
	w.Shape[0] = p.elements
	for o := range 1 + w.Op.Inputs() {
		type_ := w.Op.Result(t)
		if o > 0 {
			type_ = w.Op.Operand(o-1, t)
		}
		stride := [ew.MaxAxes]int64{type_.Size()}
		mustBeRun(l, o, p.kind[o], vectorOf(w.Op, t)*type_.Size())
		twinOperand(l, &w, o, p.kind[o], type_, stride, p.scalar)
	}
	w.Run()
}

func nestTwin(l *cudabuf.HostLaunch, t ew.Type, most int64) {
	p := launch.Parameters[nestLaunch](l, l.Args()-1)
	w := ew.Work{Op: ew.Op(p.op), Type: t, Axes: 2 + int(p.middles)}
	last := w.Axes - 1
	w.Shape[last] = int64(p.row)
	w.Shape[0] = int64(p.items / p.perRow)
	for k := range int(p.middles) {
		w.Shape[last-1-k] = int64(p.extent[k])
		w.Shape[0] /= int64(p.extent[k])
	}
	for o := range 1 + w.Op.Inputs() {
		stride := [ew.MaxAxes]int64{int64(p.outer[o])}
		stride[last] = int64(p.inner[o])
		for k := range int(p.middles) {
			stride[last-1-k] = int64(p.middle[o][k])
		}
		type_ := ew.Type(p.types[o])
		mustBeRun(l, o, p.kind[o], min(vectorOf(w.Op, t), most)*type_.Size(), stride[:last]...)
		twinOperand(l, &w, o, p.kind[o], type_, stride, p.scalar)
	}
	w.Run()
}

// vectorOf is how many elements a vector of 16 bytes has, of what is computed in or
// of the results.
func vectorOf(op ew.Op, t ew.Type) int64 { return 16 / max(t.Size(), op.Result(t).Size()) }

// mustBeRun is launch.MustAlign for an operand that the kernel takes by vectors.
func mustBeRun(l *cudabuf.HostLaunch, o int, kind int32, vector int64, steps ...int64) {
	if kind == kindRun {
		launch.MustAlign(l, o, vector, steps...)
	}
}

func twinOperand(l *cudabuf.HostLaunch, w *ew.Work, o int, kind int32, t ew.Type, stride [ew.MaxAxes]int64, scalars [3][2]uint64) {
	if o > 0 && kind == kindScalar {
		*(*[2]uint64)(unsafe.Pointer(&w.In[o-1].Scalar)) = scalars[o-1]
		return
	}
	to := &w.Out
	if o > 0 {
		to = &w.In[o-1]
	}
	launch.MustAlign(l, o, t.Size(), stride[:w.Axes]...)
	low, high, _ := layout.Extent(t.Size(), 0, w.Shape[:w.Axes], stride[:w.Axes])
	memory := l.Memory(uintptr(int64(l.Pointer(o))+low), high-low)
	*to = ew.Operand{Type: t, Base: unsafe.Pointer(&memory[-low]), Stride: stride}
}
