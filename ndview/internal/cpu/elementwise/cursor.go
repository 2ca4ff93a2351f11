package elementwise

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
