package ndview

import (
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf"
	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

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
	arithmeticInt   = launch.Program("elementwise/arithmetic_int", twinsOf(integerTypes, familyArithmetic))
	arithmeticFloat = launch.Program("elementwise/arithmetic_float", twinsOf(floatTypes, familyArithmetic))
	compareProgram  = launch.Program("elementwise/compare", twinsOf(slices.Concat(integerTypes, floatTypes), familyCompare))
	divideProgram   = launch.Program("elementwise/divide", twinsOf(integerTypes, familyMath))
	mathProgram     = launch.Program("elementwise/math", twinsOf(floatTypes[2:], familyMath))
	whereProgram    = launch.Program("elementwise/where", whereTwins())
	complexMath     = launch.Program("elementwise/complex_math", twinsOf(complexTypes, familyMath))
	complexProgram  = launch.Program("elementwise/complex", twinsOf(complexTypes, familyArithmetic, familyCompare, familyParts))
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
