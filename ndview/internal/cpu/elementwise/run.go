package elementwise

import (
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// MaxAxes is the largest number of axes of a Work.
const MaxAxes = 8

// Operand is an array, or a scalar.
type Operand struct {
	Type   Type
	Base   unsafe.Pointer // the first element; nil for a scalar
	Stride [MaxAxes]int64 // bytes, per axis of Work.Shape
	Scalar [16]byte       // in the type of the computation
}

// Operation is one operation on arrays: Out = Op(In[0], In[1], In[2]), with as many operands
// as Op has. An operand may share memory with Out only if it is Out, element for
// element.
type Operation struct {
	Op    Op
	Type  Type // that the operation computes in
	Axes  int
	Shape [MaxAxes]int64 // the first Axes axes; the last one is innermost
	Out   Operand
	In    [3]Operand
}

// Inputs returns the number of operands of an operation.
func (op Op) Inputs() int {
	switch {
	case op == Where || op == Clip:
		return 3
	case op <= Copysign, op >= TimeAdd && op <= TimeFmin, op >= Equal && op <= LogicalXor,
		op >= MixedEqual && op <= TimeGreaterEqual, op >= TimeDivide && op <= NextafterBFloat16:
		return 2
	default:
		return 1
	}
}

// grain is the number of bytes of a result that are worth a goroutine.
const grain = 64 << 10

// Run computes Out, in several goroutines if the work is large enough. It panics if
// there is no loop for Op and Type.
func (w *Operation) Run() {
	n := int64(1)
	for _, d := range w.Shape[:w.Axes] {
		n *= d
	}
	if w.runSmall(n) {
		return
	}
	work := *w // the executor escapes; the copy lets w stay on the stack
	e := newExecutor(&work, n)
	cpu.Parallel(n, grain/w.Type.Size(), func(lo, hi int64) { e.runRange(lo, hi) })
}

// runSmall computes few contiguous elements of the loop's own types, without an
// executor. It reports whether it could.
func (w *Operation) runSmall(n int64) bool {
	loop := loops[w.Op][computeType(w.Type)]
	if n > maxItems || w.Axes != 1 || loop == nil {
		return false
	}
	var at [4]unsafe.Pointer
	for i := range w.Op.Inputs() + 1 {
		o, t := &w.Out, w.Op.Result(computeType(w.Type))
		if i > 0 {
			o, t = &w.In[i-1], w.Op.Operand(i-1, computeType(w.Type))
		}
		if o.Base == nil || o.Type.Bits() != t.Bits() || o.Stride[0] != t.Size() {
			return false
		}
		at[i] = o.Base
	}
	loop(&at, int(n))
	return true
}

// executor is a Work with values shared by all of its blocks.
type executor struct {
	*Operation
	loop     Loop
	operands [4]operand // Out, In
	inputs   int
	inner    int64 // extent of the innermost axis
	items    int64 // elements per block
	direct   bool  // whether all operands are used in place
	streams  bool  // whether the result is written with non-temporal stores
}

// operand is how a loop accesses an operand.
type operand struct {
	*Operand
	elem    Type
	size    int64
	inner   int64   // stride along the innermost axis
	dense   bool    // whether the whole array is contiguous and of type elem
	same    bool    // whether its type is elem
	convert Convert // from or to type elem
	scalar  [16]byte
}

func newExecutor(w *Operation, n int64) *executor {
	e := &executor{Operation: w, inputs: w.Op.Inputs(), inner: 1, items: maxItems, direct: true}
	e.loop = loops[w.Op][computeType(w.Type)]
	if e.loop == nil {
		panic("elementwise: no loop")
	}
	if w.Axes > 0 {
		e.inner = w.Shape[w.Axes-1]
	}
	for i := range e.inputs + 1 {
		o := &e.operands[i]
		o.Operand, o.elem = &w.Out, w.Op.Result(computeType(w.Type))
		if i > 0 {
			o.Operand, o.elem = &w.In[i-1], w.Op.Operand(i-1, computeType(w.Type))
		}
		o.size = o.elem.Size()
		o.same = o.Type == o.elem || o.Type.Bits() == o.elem.Bits()
		if o.Base != nil {
			o.prepare(w, i == 0)
		} else if o.scalar = o.Scalar; w.Type.Half() && o.elem == Float32 {
			converts[w.Type][Float32](unsafe.Pointer(&o.scalar), 4, unsafe.Pointer(&o.Scalar), 2, 1)
		}
		e.direct = e.direct && o.dense
		if whole := o.same && o.Base != nil && o.inner == o.size && e.inner >= shortRow; !o.dense && !whole {
			e.items = min(e.items, blockBytes/o.size)
		}
	}
	if e.canStream(n) {
		e.streams, e.direct = true, false
		for i := range e.inputs + 1 { // operands may have twice the bytes of the result
			e.items = min(e.items, cpu.StreamBlockBytes*int64(1+min(i, 1))/e.operands[i].size)
		}
	}
	return e
}

func (o *operand) prepare(w *Operation, out bool) {
	step := o.size
	o.dense = o.same
	for a := w.Axes - 1; a >= 0; a-- {
		o.dense = o.dense && o.Stride[a] == step
		step *= w.Shape[a]
	}
	if w.Axes > 0 {
		o.inner = o.Stride[w.Axes-1]
	}
	if out {
		o.convert = converts[o.elem][o.Type]
	} else {
		o.convert = converts[o.Type][o.elem]
	}
}

const (
	// blockBytes is the number of bytes of an operand per block.
	blockBytes = 8 << 10
	// maxItems is the largest number of elements per call of a loop, as a loop cannot
	// be preempted.
	maxItems = 16 << 10
)

// scratch holds blocks of operands that no loop can use in place.
type scratch struct {
	memory [4][blockBytes]byte
	source [4]unsafe.Pointer // the element that the block repeats, if any
	count  [4]int64          // number of repetitions
}

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// shortRow is the row length below which several rows are computed per call.
const shortRow = 64

// runRange computes elements [lo, hi), counted in C order.
func (e *executor) runRange(lo, hi int64) {
	if e.direct {
		for ; lo < hi; lo += maxItems {
			var at [4]unsafe.Pointer
			for i := range e.inputs + 1 {
				at[i] = unsafe.Add(e.operands[i].Base, lo*e.operands[i].size)
			}
			e.loop(&at, int(min(hi-lo, maxItems)))
		}
		return
	}
	b := scratchPool.Get().(*scratch)
	b.source, b.count = [4]unsafe.Pointer{}, [4]int64{}
	c := e.cursorAt(lo)
	for lo < hi {
		n := min(hi-lo, e.items)
		if e.inner >= shortRow {
			n = min(n, e.inner-c.column)
		}
		e.runBlock(b, &c, lo, n)
		lo += n
		c.advance(e.Operation, n)
	}
	scratchPool.Put(b)
	if e.streams {
		cpu.StreamFence()
	}
}

// runBlock computes n elements from position lo, which is the cursor's.
func (e *executor) runBlock(b *scratch, c *cursor, lo, n int64) {
	var at [4]unsafe.Pointer
	scatter := false
	inRow := c.column+n <= e.inner
	for i := range e.inputs + 1 {
		o := &e.operands[i]
		switch {
		case o.Base == nil:
			at[i] = b.repeat(i, unsafe.Pointer(&o.scalar), unsafe.Pointer(&o.scalar), o.size, n)
		case o.dense:
			at[i] = unsafe.Add(o.Base, lo*o.size)
		case o.same && o.inner == o.size && inRow:
			at[i] = unsafe.Add(o.Base, c.offset[i])
		case o.inner == 0 && inRow && i > 0:
			var value [16]byte
			from := unsafe.Add(o.Base, c.offset[i])
			o.convert(unsafe.Pointer(&value), o.size, from, 0, 1)
			at[i] = b.repeat(i, from, unsafe.Pointer(&value), o.size, n)
		case i == 0:
			at[i], scatter = unsafe.Pointer(&b.memory[i]), true
		default:
			at[i] = unsafe.Pointer(&b.memory[i])
			o.gather(e.Operation, *c, i, at[i], n)
		}
	}
	if e.streams && !scatter {
		to := at[0]
		at[0] = unsafe.Pointer(&b.memory[0])
		e.loop(&at, int(n))
		cpu.Stream(to, at[0], n*e.operands[0].size)
		return
	}
	e.loop(&at, int(n))
	if scatter {
		e.operands[0].scatter(e.Operation, *c, at[0], n)
	}
}

// repeat returns a block with n copies of a value. It reuses the previous block if that
// was of the same element.
func (b *scratch) repeat(i int, of, value unsafe.Pointer, size, n int64) unsafe.Pointer {
	block := unsafe.Pointer(&b.memory[i])
	if b.source[i] == of && b.count[i] >= n {
		return block
	}
	b.source[i], b.count[i] = of, n
	to := b.memory[i][:n*size]
	for done := copy(to, unsafe.Slice((*byte)(value), size)); done < len(to); done *= 2 {
		copy(to[done:], to[:done])
	}
	return block
}

// gather copies n elements from the cursor on to a block, converted to type elem.
func (o *operand) gather(w *Operation, c cursor, i int, to unsafe.Pointer, n int64) {
	for done := int64(0); done < n; {
		part := min(n-done, c.row-c.column)
		o.convert(unsafe.Add(to, done*o.size), o.size, unsafe.Add(o.Base, c.offset[i]), o.inner, int(part))
		done += part
		c.advance(w, part)
	}
}

// scatter copies the n elements of a block to the array, from the cursor on.
func (o *operand) scatter(w *Operation, c cursor, from unsafe.Pointer, n int64) {
	for done := int64(0); done < n; {
		part := min(n-done, c.row-c.column)
		o.convert(unsafe.Add(o.Base, c.offset[0]), o.inner, unsafe.Add(from, done*o.size), o.size, int(part))
		done += part
		c.advance(w, part)
	}
}

// cursor is a position in an array's axes.
type cursor struct {
	index  [MaxAxes]int64
	column int64    // along the innermost axis
	row    int64    // extent of the innermost axis
	offset [4]int64 // bytes from each operand's first element
}

// cursorAt returns the position of element i.
func (e *executor) cursorAt(i int64) cursor {
	c := cursor{row: e.inner}
	for a := e.Axes - 1; a >= 0; a-- {
		index := i % e.Shape[a]
		i /= e.Shape[a]
		c.move(e.Operation, a, index)
		if c.index[a] = index; a == e.Axes-1 {
			c.column = index
		}
	}
	return c
}

// move adds steps along an axis to the offsets.
func (c *cursor) move(w *Operation, axis int, steps int64) {
	c.offset[0] += steps * w.Out.Stride[axis]
	c.offset[1] += steps * w.In[0].Stride[axis]
	c.offset[2] += steps * w.In[1].Stride[axis]
	c.offset[3] += steps * w.In[2].Stride[axis]
}

// advance moves the cursor n elements forward.
func (c *cursor) advance(w *Operation, n int64) {
	last := w.Axes - 1
	for last >= 0 && n > 0 {
		step := min(n, c.row-c.column)
		c.move(w, last, step)
		c.column += step
		n -= step
		if c.column < c.row {
			return
		}
		c.move(w, last, -c.row)
		c.column = 0
		c.nextRow(w, last-1)
	}
}

// nextRow moves one step along an axis, and along the outer axes at its end.
func (c *cursor) nextRow(w *Operation, axis int) {
	for ; axis >= 0; axis-- {
		c.move(w, axis, 1)
		if c.index[axis]++; c.index[axis] < w.Shape[axis] {
			return
		}
		c.move(w, axis, -w.Shape[axis])
		c.index[axis] = 0
	}
}

// canStream reports whether the result should be written with non-temporal stores: it
// is large, its rows are contiguous, and it is not an operand, which would be in the
// cache already. Such a result is computed in blocks that stay in the cache.
func (e *executor) canStream(n int64) bool {
	out := &e.operands[0]
	bytes := n * out.size
	for i := range e.inputs {
		if o := &e.operands[1+i]; o.Base != nil && o.inner != 0 {
			bytes += n * o.size
		}
	}
	if !cpu.ShouldStream(bytes) || !out.same || out.inner != out.size || e.inner < shortRow {
		return false
	}
	for i := range e.inputs {
		if e.In[i].Base == out.Base {
			return false
		}
	}
	return true
}
