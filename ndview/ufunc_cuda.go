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
	"github.com/quiver-gpu/quiver/internal/launch"
	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/half"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// form is how kernels of kernels/elementwise/forms.cuh address their operands.
type form byte

const (
	dense   form = iota // contiguous arrays of one shape
	rowwise             // rows that are whole vectors
	nested              // any strides
	forms
)

// How a kernel addresses one operand, as in kernels/elementwise/nest.cuh.
const (
	kindScalar = iota
	kindRun    // contiguous vectors
	kindSame   // one element for a row
	kindGather // any stride
)

// denseLaunch is Dense of kernels/elementwise/nest.cuh.
type denseLaunch struct {
	elements int64
	op       int32
	kind     [4]int32
	_        int32
	scalar   [3][2]uint64
}

// hasDense reports whether the family has a dense kernel for a type.
func (f family) hasDense(t ew.Type) bool {
	return f != familyMath || t == ew.Float32 || t == ew.Float64
}

// isContiguous reports whether a dense kernel computes the arrays. They must be
// contiguous, of one shape and of the kernel's types, and aligned to vectors. No input may
// share memory with other elements of the result.
func (c *computation) isContiguous(a *arrays) bool {
	out := a[0]
	if !out.contiguous || !c.family.hasDense(c.kernel) || out.dtype != c.result {
		return false
	}
	start := int64(out.buf.Address()) + out.offset
	end := start + out.NBytes()
	if start&(c.vector*out.dtype.Size()-1) != 0 {
		return false
	}
	for o := 1; o <= c.n; o++ {
		x := a[o]
		if x == nil {
			continue
		}
		if !x.contiguous || !slices.Equal(x.shape, out.shape) || c.typeOf(a, o).Bits() != c.op.Operand(o-1, c.kernel).Bits() {
			return false
		}
		at := int64(x.buf.Address()) + x.offset
		if at&(c.vector*x.dtype.Size()-1) != 0 {
			return false
		}
		if at < end && start < at+x.NBytes() && (at != start || x.dtype.Size() != out.dtype.Size()) {
			return false
		}
	}
	return true
}

func (c *computation) launchContiguous(dev *cudabuf.Device, a *arrays) error {
	out := a[0]
	if out.size == 0 {
		return nil
	}
	p := denseLaunch{elements: out.size, op: int32(c.op), scalar: c.scalars}
	p.kind[0] = kindRun
	offset := [4]int64{out.offset}
	for o := 1; o <= c.n; o++ {
		if a[o] != nil {
			p.kind[o] = kindRun
			offset[o] = a[o].offset
		}
	}
	return c.launch(dev, a, dense, (p.elements-1)/c.vector+1, &offset, launch.StructBytes(&p))
}

// familyThreads is the number of threads per block in kernels/elementwise/forms.cuh.
const familyThreads = 128

// launch enqueues a kernel for a number of vectors. offset is where each array's first
// element is in its buffer.
func (c *computation) launch(dev *cudabuf.Device, a *arrays, f form, vectors int64, offset *[4]int64, parameters []byte) error {
	k, err := c.family.kernel(dev, c.kernel, f)
	if err != nil {
		return err
	}
	stream, err := dev.DefaultStream()
	if err != nil {
		return err
	}
	threads := vectors
	if c.twoVectorsPerThread(f) {
		threads = (vectors + 1) / 2
	}
	grid, block := cudabuf.Dim3{X: uint32((threads-1)/familyThreads + 1)}, cudabuf.Dim3{X: familyThreads}
	to := cudabuf.InOut(launch.CUDABuffer(a[0].buf), offset[0])
	x, y := a.input(1, offset), a.input(2, offset)
	if c.n < 3 {
		return k.LaunchAsync(stream, grid, block, 0, to, x, y, parameters)
	}
	return k.LaunchAsync(stream, grid, block, 0, to, x, y, a.input(3, offset), parameters)
}

// input returns the pointer to array o for a kernel, and any valid pointer for a scalar,
// which the kernel does not read.
func (a *arrays) input(o int, offset *[4]int64) cudabuf.Pointer {
	if a[o] != nil {
		return cudabuf.In(launch.CUDABuffer(a[o].buf), offset[o])
	}
	return cudabuf.In(launch.CUDABuffer(a[0].buf), 0)
}

// twoVectorsPerThread reports whether a thread computes two vectors, as family.cuh does
// for small results, and for rows of complex numbers.
func (c *computation) twoVectorsPerThread(f form) bool {
	small := c.op.Result(c.kernel).Size() < c.kernel.Size()
	return f != nested && small || f == rowwise && c.n < 3 && c.kernel >= ew.Complex64
}

// nestLaunch is Nest of kernels/elementwise/nest.cuh, which describes the fields.
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

// middleAxes is the number of axes between the outer and the inner one.
const middleAxes = ew.MaxAxes - 2

// launchNest launches a kernel, or several if the nest has more elements or larger steps
// than 31 bits count.
func (c *computation) launchNest(dev *cudabuf.Device, a *arrays, n jointNest) error {
	axes := len(n.shape)
	inner, rows := int64(1), int64(1)
	for axis, d := range n.shape {
		for o := range 1 + c.n {
			if s := n.strides[o][axis]; max(s, -s) > maxStep {
				return c.runEachIndex(a, n, axis)
			}
		}
		if inner = d; axis < axes-1 {
			rows *= d
		}
	}
	v := min(c.vector, nestedVector)
	if c.family == familyMath {
		v = 1
	}
	if inner > maxVectors || rows > maxVectors/((inner-1)/v+1) {
		return c.launchHalves(dev, a, n)
	}
	if c.family != familyMath {
		if p, ok := c.nestParameters(a, n, inner, rows, c.vector); ok {
			return c.launch(dev, a, rowwise, int64(p.items), &n.offset, launch.StructBytes(&p))
		}
	}
	p, _ := c.nestParameters(a, n, inner, rows, v)
	return c.launch(dev, a, nested, int64(p.items), &n.offset, launch.StructBytes(&p))
}

// nestedVector is the maximum of elements per vector of the form nested.
const nestedVector = 4

// nestParameters returns the parameters of a launch with vectors of v elements. inRows
// reports whether rows are whole vectors, so that the form rowwise computes them.
func (c *computation) nestParameters(a *arrays, n jointNest, inner, rows, v int64) (p nestLaunch, inRows bool) {
	axes := len(n.shape)
	perRow := (inner-1)/v + 1
	p = nestLaunch{op: int32(c.op), row: uint32(inner), perRow: uint32(perRow), items: uint32(rows * perRow)}
	p.magic[middleAxes], p.shift[middleAxes] = divider(p.perRow)
	for k := range max(axes-2, 0) {
		p.extent[k] = uint32(n.shape[axes-2-k])
		p.magic[k], p.shift[k] = divider(p.extent[k])
		p.middles++
	}
	c.setOperand(&p, a, n, 0, c.op.Result(c.kernel), v)
	inRows = inner%v == 0 && p.kind[0] == kindRun
	for i := range c.n {
		if a[1+i] == nil {
			p.scalar[i] = c.kernelScalar(i)
			continue
		}
		c.setOperand(&p, a, n, 1+i, c.op.Operand(i, c.kernel), v)
		inRows = inRows && p.kind[1+i] != kindGather
	}
	return p, inRows
}

// kernelScalar returns scalar input i as an element of the kernel's type. A half stays
// rounded to its type if the kernel computes in float32.
func (c *computation) kernelScalar(i int) [2]uint64 {
	bits := c.scalars[i]
	if c.kernel == c.compute {
		return bits
	}
	f := half.BFloat16ToFloat32(uint16(bits[0]))
	if c.compute == ew.Float16 {
		f = half.Float16ToFloat32(uint16(bits[0]))
	}
	return [2]uint64{uint64(math.Float32bits(f))}
}

// setOperand describes array o, whose elements the kernel takes as t, in vectors of v.
func (c *computation) setOperand(p *nestLaunch, a *arrays, n jointNest, o int, t ew.Type, v int64) {
	own := c.typeOf(a, o)
	p.types[o] = uint8(own)
	size := a[o].dtype.Size()
	steps := n.strides[o]
	last := len(steps) - 1
	align := int64(a[o].buf.Address()) + n.offset[o]
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

// maxVectors is the maximum of vectors per launch, which leaves room for the idle threads
// of the last block. maxStep is the maximum of bytes from one index to the next.
var maxVectors, maxStep int64 = 1<<31 - 1 - 2*familyThreads, 1<<31 - 1

// launchHalves launches the two halves of a nest along its longest axis.
func (c *computation) launchHalves(dev *cudabuf.Device, a *arrays, n jointNest) error {
	axis := 0
	for k, d := range n.shape {
		if d > n.shape[axis] {
			axis = k
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
	if err := c.launchNest(dev, a, first); err != nil {
		return err
	}
	return c.launchNest(dev, a, second)
}

// divider returns the constants by which n/d is (n*magic>>32 + n) >> shift for n < 2^31.
func divider(d uint32) (magic uint32, shift uint8) {
	shift = uint8(bits.Len32(d - 1))
	return uint32((uint64(1)<<shift-uint64(d))<<32/uint64(d)) + 1, shift
}

// family is a group of operations that share kernels, one per type.
type family byte

const (
	familyArithmetic family = iota
	familyCompare
	familyMath // bound by arithmetic, not by memory
	familyWhere
	familyClip
	familyParts // the result is a part of a complex number
	families
)

var familyNames = [families]string{"arithmetic", "compare", "math", "where", "clip", "parts"}

// familyOf returns the family of an operation that computes in a type.
func familyOf(op ew.Op, compute ew.Type) family {
	switch {
	case op == ew.Clip:
		return familyClip
	case op.Boolean():
		return familyCompare
	case op.Real() && compute >= ew.Complex64:
		return familyParts
	case op >= ew.TimeDivide && op <= ew.Arctanh, op == ew.Angle,
		op == ew.Reciprocal && compute < ew.Float16,
		op == ew.Sqrt && compute >= ew.Complex64:
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
	arithmeticInt   = launch.Program("elementwise/arithmetic_int", hostKernelsOf(integerTypes, familyArithmetic))
	arithmeticFloat = launch.Program("elementwise/arithmetic_float", hostKernelsOf(floatTypes, familyArithmetic))
	compareProgram  = launch.Program("elementwise/compare", hostKernelsOf(slices.Concat(integerTypes, floatTypes), familyCompare))
	divideProgram   = launch.Program("elementwise/divide", hostKernelsOf(integerTypes, familyMath))
	mathProgram     = launch.Program("elementwise/math", hostKernelsOf(floatTypes[2:], familyMath))
	whereProgram    = launch.Program("elementwise/where", whereHostKernels())
	complexMath     = launch.Program("elementwise/complex_math", hostKernelsOf(complexTypes, familyMath))
	complexProgram  = launch.Program("elementwise/complex", hostKernelsOf(complexTypes, familyArithmetic, familyCompare, familyParts))
)

func whereHostKernels() map[string]cudabuf.HostKernel {
	kernels := hostKernelsOf(slices.Concat(integerTypes, floatTypes), familyClip)
	maps.Copy(kernels, hostKernelsOf(slices.Concat(integerTypes, floatTypes, complexTypes), familyWhere))
	return kernels
}

// programOf returns the program with the kernels of a family for a type.
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

// kernelCache remembers a kernel on the latest devices that used it, so that a launch
// neither builds the kernel's name nor looks it up.
type kernelCache [4]atomic.Pointer[loadedKernel]

type loadedKernel struct {
	dev    *cudabuf.Device
	kernel *cudabuf.Kernel
}

// on returns the kernel on a device, which load loads at its first use.
func (s *kernelCache) on(dev *cudabuf.Device, load func() (*cudabuf.Kernel, error)) (*cudabuf.Kernel, error) {
	slot := &s[dev.ID()&int64(len(s)-1)]
	if l := slot.Load(); l != nil && l.dev == dev {
		return l.kernel, nil
	}
	k, err := load()
	if err != nil {
		return nil, err
	}
	slot.Store(&loadedKernel{dev, k})
	return k, nil
}

var familyKernels [families][ew.Types][forms]kernelCache

// kernel returns the kernel of the family for a type on a device.
func (f family) kernel(dev *cudabuf.Device, t ew.Type, as form) (*cudabuf.Kernel, error) {
	return familyKernels[f][t][as].on(dev, func() (*cudabuf.Kernel, error) {
		name := f.name(t, as)
		k, err := dev.Kernel(programOf(f, t), name)
		if err != nil {
			return nil, fmt.Errorf("loading kernel %s: %w", name, err)
		}
		return k, nil
	})
}

// hostKernelsOf returns the host kernels of families for types.
func hostKernelsOf(types []ew.Type, of ...family) map[string]cudabuf.HostKernel {
	kernels := map[string]cudabuf.HostKernel{}
	for _, f := range of {
		for _, t := range types {
			if f.hasDense(t) {
				kernels[f.name(t, dense)] = func(l *cudabuf.HostLaunch) { runDenseLaunch(l, t) }
			}
			if f != familyMath {
				kernels[f.name(t, rowwise)] = func(l *cudabuf.HostLaunch) { runNestLaunch(l, t, 16) }
			}
			most := int64(nestedVector)
			if f == familyMath {
				most = 1
			}
			kernels[f.name(t, nested)] = func(l *cudabuf.HostLaunch) { runNestLaunch(l, t, most) }
		}
	}
	return kernels
}

// runDenseLaunch runs a launch of a dense kernel with the loops of the CPU device.
func runDenseLaunch(l *cudabuf.HostLaunch, t ew.Type) {
	p := launch.StructArg[denseLaunch](l, l.Args()-1)
	w := ew.Operation{Op: ew.Op(p.op), Type: t, Axes: 1}
	w.Shape[0] = p.elements
	for o := range 1 + w.Op.Inputs() {
		type_ := w.Op.Result(t)
		if o > 0 {
			type_ = w.Op.Operand(o-1, t)
		}
		stride := [ew.MaxAxes]int64{type_.Size()}
		mustAlignRun(l, o, p.kind[o], vectorOf(w.Op, t)*type_.Size())
		setWorkOperand(l, &w, o, p.kind[o], type_, stride, p.scalar)
	}
	w.Run()
}

// runNestLaunch does so for the other forms, with vectors of at most most elements.
func runNestLaunch(l *cudabuf.HostLaunch, t ew.Type, most int64) {
	p := launch.StructArg[nestLaunch](l, l.Args()-1)
	w := ew.Operation{Op: ew.Op(p.op), Type: t, Axes: 2 + int(p.middles)}
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
		mustAlignRun(l, o, p.kind[o], min(vectorOf(w.Op, t), most)*type_.Size(), stride[:last]...)
		setWorkOperand(l, &w, o, p.kind[o], type_, stride, p.scalar)
	}
	w.Run()
}

// vectorOf returns the elements per vector of 16 bytes, of the computed type or of the
// results, if these are larger.
func vectorOf(op ew.Op, t ew.Type) int64 { return 16 / max(t.Size(), op.Result(t).Size()) }

// mustAlignRun is launch.MustAlign for an operand that the kernel takes in vectors.
func mustAlignRun(l *cudabuf.HostLaunch, o int, kind int32, vector int64, steps ...int64) {
	if kind == kindRun {
		launch.MustAlign(l, o, vector, steps...)
	}
}

// setWorkOperand sets operand o of work to the scalar or the memory of a launch.
func setWorkOperand(l *cudabuf.HostLaunch, w *ew.Operation, o int, kind int32, t ew.Type, stride [ew.MaxAxes]int64, scalars [3][2]uint64) {
	if o > 0 && kind == kindScalar {
		*(*[2]uint64)(unsafe.Pointer(&w.In[o-1].Scalar)) = scalars[o-1]
		return
	}
	to := &w.Out
	if o > 0 {
		to = &w.In[o-1]
	}
	launch.MustAlign(l, o, t.Size(), stride[:w.Axes]...)
	low, high, _ := layout.ByteBounds(t.Size(), 0, w.Shape[:w.Axes], stride[:w.Axes])
	memory := l.Memory(uintptr(int64(l.Pointer(o))+low), high-low)
	*to = ew.Operand{Type: t, Base: unsafe.Pointer(&memory[-low]), Stride: stride}
}
