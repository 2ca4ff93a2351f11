package arrowzarr

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// part is a run of rows of one column in one batch.
type part struct {
	values   arrow.Array
	from, to int64
	recode   recode // of a dictionary column
}

func (p part) rows() int64 { return p.to - p.from }

// chunk is the rows of one column that make up one chunk of its arrays.
type chunk struct {
	values element.Values
	// mask has one element a row; nil where no row is missing.
	mask *ndview.NDBuffer
	// elementMask has the shape of values; nil where no element is missing.
	elementMask *ndview.NDBuffer
}

func (c *chunk) release() {
	if c.values != nil {
		c.values.Release()
	}
	if c.mask != nil {
		c.mask.Release()
	}
	if c.elementMask != nil {
		c.elementMask.Release()
	}
}

// assembler makes chunks of a column's parts.
type assembler struct {
	device  arrowbuf.Device // where columns of fixed width are put together
	kernels *stage
}

// assemble puts the parts of a column together. The caller releases the chunk.
func (a *assembler) assemble(c *column, parts []part, rows int64) (*chunk, error) {
	switch c.form {
	case formText, formBinary:
		return assembleText(parts, rows)
	case formDictionary:
		return assembleCodes(c, parts, rows)
	case formNull:
		return &chunk{}, nil
	default:
		return a.assembleFixed(c.layout, parts, rows)
	}
}

func (a *assembler) assembleFixed(l fixedLayout, parts []part, rows int64) (_ *chunk, err error) {
	out := &chunk{}
	defer func() {
		if err != nil {
			out.release()
		}
	}()
	if out.mask, err = a.mask(parts, rows); err != nil {
		return nil, err
	}
	missing, err := hasMissingElements(parts)
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 && out.mask == nil && !missing && l.inPlace() {
		view, err := l.view(parts[0])
		if err != nil {
			return nil, err
		}
		out.values = view
		return out, nil
	}
	whole, err := ndview.Empty(a.device, l.dtype, append([]int64{rows}, l.row...)...)
	if err != nil {
		return nil, failed(PartDevice, err)
	}
	out.values = whole
	if err = eachPart(whole, parts, func(dst *ndview.NDBuffer, p part) error { return a.copyPart(l, dst, p) }); err != nil {
		return nil, err
	}
	if missing {
		if out.elementMask, err = a.elementMask(l, parts, rows); err != nil {
			return nil, err
		}
		if err = a.fillElements(whole, out.elementMask, l.fill); err != nil {
			return nil, err
		}
	}
	if out.mask != nil {
		err = a.run(whole.NBytes(), func() error { return whole.FillWhere(out.mask, l.fill) })
	}
	return out, err
}

// inPlace tells whether Arrow's buffer holds the elements as Zarr wants them.
func (l fixedLayout) inPlace() bool { return l.source == l.dtype && l.dtype != ndview.Bool }

// view looks at the values of a part, without a copy, as elements of the
// source's dtype.
func (l fixedLayout) view(p part) (*ndview.NDBuffer, error) {
	data, at, err := leaf(p.values.Data(), p.from)
	if err != nil {
		return nil, err
	}
	buf, err := valuesBuffer(data, p.rows()*l.elements())
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	dtype := l.source
	if dtype.Size() == l.dtype.Size() {
		dtype = l.dtype
	}
	start := at * l.limbs * dtype.Size()
	return ndview.FromBuffer(buf, dtype, start, append([]int64{p.rows()}, l.row...), nil)
}

// valuesBuffer is the second buffer of an array of fixed width. One without
// values may lack it.
func valuesBuffer(data arrow.ArrayData, elements int64) (arrowbuf.Buffer, error) {
	if len(data.Buffers()) < 2 || data.Buffers()[1] == nil {
		if elements > 0 {
			return nil, fmt.Errorf("%s array without a buffer of values", data.DataType())
		}
		return arrowbuf.CPU().Alloc(0)
	}
	return arrowbuf.BufferOf(data.Buffers()[1])
}

// copyPart copies a part to its rows of a chunk.
func (a *assembler) copyPart(l fixedLayout, dst *ndview.NDBuffer, p part) error {
	if l.dtype == ndview.Bool {
		data, at, err := leaf(p.values.Data(), p.from)
		if err != nil {
			return err
		}
		bits, err := valuesBuffer(data, dst.Size())
		if err != nil {
			return err
		}
		defer bits.Release()
		return a.run(dst.NBytes(), func() error { return dst.UnpackBits(bits, at, false) })
	}
	src, err := l.view(p)
	if err != nil {
		return err
	}
	defer src.Release()
	if l.source.Size() != l.dtype.Size() {
		return a.run(dst.NBytes(), func() error { return dst.Assign(src) })
	}
	return a.run(dst.NBytes(), func() error { return dst.CopyFrom(src) })
}

// eachPart calls f with each part and its rows of whole.
func eachPart(whole *ndview.NDBuffer, parts []part, f func(dst *ndview.NDBuffer, p part) error) error {
	at := int64(0)
	for _, p := range parts {
		dst, err := whole.Slice(0, at, at+p.rows())
		if err != nil {
			return err
		}
		err = f(dst, p)
		dst.Release()
		if err != nil {
			return err
		}
		at += p.rows()
	}
	return nil
}

// run does one piece of work on the device, and counts it.
func (a *assembler) run(n int64, work func() error) error {
	start := time.Now()
	err := work()
	a.kernels.add(n, time.Since(start))
	return err
}
