package elementwise

import (
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// MaxAxes is how many axes a nest of loops has at most.
const MaxAxes = 8

// Operand is where an operation finds the elements of an array, or the value of
// a scalar.
type Operand struct {
	Type   Type
	Base   unsafe.Pointer // the first element; nil for a scalar
	Stride [MaxAxes]int64 // bytes, as Work.Shape
	Scalar [16]byte       // of the type that is computed in
}

// Work is one operation on arrays: Out = Op(In[0], In[1], In[2]), of which it
// takes what it needs. Operands that share memory with Out are Out, element for
// element.
type Work struct {
	Op    Op
	Type  Type // that it computes in
	Axes  int
	Shape [MaxAxes]int64 // of the first Axes axes, the last the innermost
	Out   Operand
	In    [3]Operand
}

// Inputs is the number of operands of an operation.
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

// grain is how many bytes of a result are worth a goroutine.
const grain = 64 << 10

// Run does the work, in as many goroutines as it is worth. There is a loop for
// Op and Type, or it panics.
func (w *Work) Run() {
	n := int64(1)
	for _, d := range w.Shape[:w.Axes] {
		n *= d
	}
	if w.runSmall(n) {
		return
	}
	work := *w // which the engine keeps, so that w may be on the stack
	e := newEngine(&work, n)
	cpu.Parallel(n, grain/w.Type.Size(), func(lo, hi int64) { e.run(lo, hi) })
}

// runSmall does few elements without gaps, of the types that the loop is for, where
// there is little to prepare. It answers false for other work.
func (w *Work) runSmall(n int64) bool {
	loop := loops[w.Op][computes(w.Type)]
	if n > mostItems || w.Axes != 1 || loop == nil {
		return false
	}
	var at [4]unsafe.Pointer
	for i := range w.Op.Inputs() + 1 {
		o, t := &w.Out, w.Op.Result(computes(w.Type))
		if i > 0 {
			o, t = &w.In[i-1], w.Op.Operand(i-1, computes(w.Type))
		}
		if o.Base == nil || o.Type.Bits() != t.Bits() || o.Stride[0] != t.Size() {
			return false
		}
		at[i] = o.Base
	}
	loop(&at, int(n))
	return true
}

// engine is a Work with what is the same for all of its parts.
type engine struct {
	*Work
	loop     Loop
	operands [4]operand // Out, In
	inputs   int
	inner    int64 // extent of the innermost axis
	items    int64 // elements of a block
	direct   bool  // no operand needs a block
	streams  bool  // the result is streamed from one
}

// operand is how a loop comes to an operand's elements.
type operand struct {
	*Operand
	work    Type
	size    int64
	inner   int64   // stride along the innermost axis
	dense   bool    // the loop takes the array as it is, as one run
	same    bool    // it is of the loop's type
	convert Convert // from or to the loop's type
	scalar  [16]byte
}

func newEngine(w *Work, n int64) *engine {
	e := &engine{Work: w, inputs: w.Op.Inputs(), inner: 1, items: mostItems, direct: true}
	e.loop = loops[w.Op][computes(w.Type)]
	if e.loop == nil {
		panic("elementwise: no loop")
	}
	if w.Axes > 0 {
		e.inner = w.Shape[w.Axes-1]
	}
	for i := range e.inputs + 1 {
		o := &e.operands[i]
		o.Operand, o.work = &w.Out, w.Op.Result(computes(w.Type))
		if i > 0 {
			o.Operand, o.work = &w.In[i-1], w.Op.Operand(i-1, computes(w.Type))
		}
		o.size = o.work.Size()
		o.same = o.Type == o.work || o.Type.Bits() == o.work.Bits()
		if o.Base != nil {
			o.prepare(w, i == 0)
		} else if o.scalar = o.Scalar; w.Type.Half() && o.work == Float32 {
			converts[w.Type][Float32](unsafe.Pointer(&o.scalar), 4, unsafe.Pointer(&o.Scalar), 2, 1)
		}
		e.direct = e.direct && o.dense
		if whole := o.same && o.Base != nil && o.inner == o.size && e.inner >= shortRow; !o.dense && !whole {
			e.items = min(e.items, blockBytes/o.size)
		}
	}
	if e.canBeStreamed(n) {
		e.streams, e.direct = true, false
		for i := range e.inputs + 1 { // what is read may be twice as much
			e.items = min(e.items, cpu.StreamBlock*int64(1+min(i, 1))/e.operands[i].size)
		}
	}
	return e
}

func (o *operand) prepare(w *Work, out bool) {
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
		o.convert = converts[o.work][o.Type]
	} else {
		o.convert = converts[o.Type][o.work]
	}
}

const (
	// blockBytes is how much of an operand is brought into a block at a time.
	blockBytes = 8 << 10
	// mostItems is how many elements a loop does at a time, which no goroutine can
	// be interrupted in.
	mostItems = 16 << 10
)

// blocks are what operands are brought into that no loop takes as they are.
type blocks struct {
	memory [4][blockBytes]byte
	same   [4]unsafe.Pointer // the element that the block repeats
	filled [4]int64          // how often
}

var pool = sync.Pool{New: func() any { return new(blocks) }}

// shortRow is where a row is too short to be worth a call of a loop.
const shortRow = 64

// run does elements [lo, hi), counted in the order of the nest.
func (e *engine) run(lo, hi int64) {
	if e.direct {
		for ; lo < hi; lo += mostItems {
			var at [4]unsafe.Pointer
			for i := range e.inputs + 1 {
				at[i] = unsafe.Add(e.operands[i].Base, lo*e.operands[i].size)
			}
			e.loop(&at, int(min(hi-lo, mostItems)))
		}
		return
	}
	b := pool.Get().(*blocks)
	b.same, b.filled = [4]unsafe.Pointer{}, [4]int64{}
	c := e.cursor(lo)
	for lo < hi {
		n := min(hi-lo, e.items)
		if e.inner >= shortRow {
			n = min(n, e.inner-c.column)
		}
		e.block(b, &c, lo, n)
		lo += n
		c.advance(e.Work, n)
	}
	pool.Put(b)
	if e.streams {
		cpu.StreamEnd()
	}
}

// block does n elements from position lo, where the cursor is.
func (e *engine) block(b *blocks, c *cursor, lo, n int64) {
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
			o.gather(e.Work, *c, i, at[i], n)
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
		e.operands[0].scatter(e.Work, *c, at[0], n)
	}
}

// repeat gives a block that has a value n times, the one that it gave last where
// that was of the same element.
func (b *blocks) repeat(i int, of, value unsafe.Pointer, size, n int64) unsafe.Pointer {
	block := unsafe.Pointer(&b.memory[i])
	if b.same[i] == of && b.filled[i] >= n {
		return block
	}
	b.same[i], b.filled[i] = of, n
	to := b.memory[i][:n*size]
	for done := copy(to, unsafe.Slice((*byte)(value), size)); done < len(to); done *= 2 {
		copy(to[done:], to[:done])
	}
	return block
}

// gather brings n elements from the cursor on to a block.
func (o *operand) gather(w *Work, c cursor, i int, to unsafe.Pointer, n int64) {
	for done := int64(0); done < n; {
		part := min(n-done, c.row-c.column)
		o.convert(unsafe.Add(to, done*o.size), o.size, unsafe.Add(o.Base, c.offset[i]), o.inner, int(part))
		done += part
		c.advance(w, part)
	}
}

// scatter brings a block's n elements to their places from the cursor on.
func (o *operand) scatter(w *Work, c cursor, from unsafe.Pointer, n int64) {
	for done := int64(0); done < n; {
		part := min(n-done, c.row-c.column)
		o.convert(unsafe.Add(o.Base, c.offset[0]), o.inner, unsafe.Add(from, done*o.size), o.size, int(part))
		done += part
		c.advance(w, part)
	}
}

// cursor is a position in a nest of loops.
type cursor struct {
	index  [MaxAxes]int64
	column int64    // along the innermost axis
	row    int64    // the extent of that
	offset [4]int64 // of each operand's element from its first
}

// cursor is where element i of the nest is.
func (e *engine) cursor(i int64) cursor {
	c := cursor{row: e.inner}
	for a := e.Axes - 1; a >= 0; a-- {
		index := i % e.Shape[a]
		i /= e.Shape[a]
		c.move(e.Work, a, index)
		if c.index[a] = index; a == e.Axes-1 {
			c.column = index
		}
	}
	return c
}

// move adds steps along an axis to the offsets.
func (c *cursor) move(w *Work, axis int, steps int64) {
	c.offset[0] += steps * w.Out.Stride[axis]
	c.offset[1] += steps * w.In[0].Stride[axis]
	c.offset[2] += steps * w.In[1].Stride[axis]
	c.offset[3] += steps * w.In[2].Stride[axis]
}

// advance goes n elements on.
func (c *cursor) advance(w *Work, n int64) {
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

// nextRow goes one step along an axis, and on where that is at its end.
func (c *cursor) nextRow(w *Work, axis int) {
	for ; axis >= 0; axis-- {
		c.move(w, axis, 1)
		if c.index[axis]++; c.index[axis] < w.Shape[axis] {
			return
		}
		c.move(w, axis, -w.Shape[axis])
		c.index[axis] = 0
	}
}

// canBeStreamed tells whether the result is large, has rows without gaps, and is
// no operand, which then is in the cache already. It is computed by blocks in the
// cache, which are streamed.
func (e *engine) canBeStreamed(n int64) bool {
	out := &e.operands[0]
	bytes := n * out.size
	for i := range e.inputs {
		if o := &e.operands[1+i]; o.Base != nil && o.inner != 0 {
			bytes += n * o.size
		}
	}
	if !cpu.Streams(bytes) || !out.same || out.inner != out.size || e.inner < shortRow {
		return false
	}
	for i := range e.inputs {
		if e.In[i].Base == out.Base {
			return false
		}
	}
	return true
}
