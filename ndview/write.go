package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// element is the code of what the elements are to a cast: that of the number, or
// for a time of the integer that counts it. Records and bytes are none.
func (t DType) element() (cpu.Type, bool) {
	if t.IsTime() {
		return cpu.Int64, true
	}
	code, ok := t.code() // which bytes have too, of some sizes
	return code, ok && t.isNumeric()
}

// castable answers ErrDType where elements of one type cannot be written as the
// other.
func castable(from, to DType) error {
	_, isNumber := from.element()
	_, ok := to.element()
	if from == to || isNumber && ok && !(from == BFloat16 && to.IsTime()) && !(from.IsTime() && to == BFloat16) {
		return nil
	}
	return fmt.Errorf("writing %s as %s: %w", from, to, ErrDType)
}

// keepsBits tells whether elements of one type become another as they are.
func keepsBits(from, to DType) bool {
	count := func(t DType) bool { return t.kind == KindInt || t.kind == KindUint || t.IsTime() }
	return from == to || from.size == to.size && count(from) && count(to) && !(from.kind == to.kind && from.IsTime())
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
	if src.dtype.kind == a.dtype.kind && src.dtype.IsTime() {
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
	case a.dtype.size >= src.dtype.size:
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
	from, _ := b.src.dtype.element()
	to, _ := b.dst.dtype.element()
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
