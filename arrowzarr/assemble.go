package arrowzarr

import (
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

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
	// spans is the host memory that values shows in place.
	spans [][]byte
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
		return a.assembleCodes(c, parts, rows)
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
		if host, ok := view.HostBytes(); ok {
			out.spans = [][]byte{host}
		}
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
		return a.run(dst.NBytes(), func() error { return dst.WidenFrom(src) })
	}
	return a.run(dst.NBytes(), func() error { return dst.CopyFrom(src) })
}

// mask unpacks the parts' validity bitmaps, inverted; nil where all is valid.
func (a *assembler) mask(parts []part, rows int64) (*ndview.NDBuffer, error) {
	if !slices.ContainsFunc(parts, func(p part) bool { return p.values.NullN() != 0 }) {
		return nil, nil
	}
	return a.newMask(parts, []int64{rows}, func(dst *ndview.NDBuffer, p part) error {
		data := p.values.Data()
		return a.unpackMissing(dst, data, int64(data.Offset())+p.from)
	})
}

// elementMask has the shape of the values. A list that is missing inside a list
// is a list of missing elements.
func (a *assembler) elementMask(l fixedLayout, parts []part, rows int64) (*ndview.NDBuffer, error) {
	return a.newMask(parts, append([]int64{rows}, l.row...), func(dst *ndview.NDBuffer, p part) error {
		data, at, err := leaf(p.values.Data(), p.from)
		if err != nil {
			return err
		}
		if err := a.unpackMissing(dst, data, at); err != nil {
			return err
		}
		_, _, err = descend(p.values.Data(), p.from, func(lists arrow.ArrayData, at, perRow int64) error {
			if lists.NullN() == 0 || dst.Size() == 0 {
				return nil
			}
			return a.markLists(dst, lists, at, p.rows()*perRow)
		})
		return err
	})
}

// markLists sets the elements of missing lists in the mask of a part's elements.
func (a *assembler) markLists(elements *ndview.NDBuffer, lists arrow.ArrayData, at, n int64) error {
	missing, err := ndview.Empty(a.device, ndview.Bool, n)
	if err != nil {
		return failed(PartDevice, err)
	}
	defer missing.Release()
	if err := a.unpackMissing(missing, lists, at); err != nil {
		return err
	}
	byList, err := elements.Reshape(n, elements.Size()/n)
	if err != nil {
		return err
	}
	defer byList.Release()
	const allTrue = 0x0101010101010101
	return a.run(byList.NBytes(), func() error { return byList.FillWhere(missing, allTrue) })
}

// newMask makes a mask and fills it part by part.
func (a *assembler) newMask(parts []part, shape []int64, fill func(dst *ndview.NDBuffer, p part) error) (*ndview.NDBuffer, error) {
	mask, err := ndview.Empty(a.device, ndview.Bool, shape...)
	if err != nil {
		return nil, failed(PartDevice, err)
	}
	if err := eachPart(mask, parts, fill); err != nil {
		mask.Release()
		return nil, err
	}
	return mask, nil
}

// unpackMissing writes which elements from a position on are missing.
func (a *assembler) unpackMissing(dst *ndview.NDBuffer, data arrow.ArrayData, at int64) error {
	if data.NullN() == 0 || len(data.Buffers()) == 0 || data.Buffers()[0] == nil || data.Buffers()[0].Len() == 0 {
		return a.run(dst.NBytes(), dst.Zero)
	}
	bits, err := arrowbuf.BufferOf(data.Buffers()[0])
	if err != nil {
		return err
	}
	defer bits.Release()
	return a.run(dst.NBytes(), func() error { return dst.UnpackBits(bits, at, true) })
}

// hasMissingElements tells whether elements of lists may be missing.
func hasMissingElements(parts []part) (bool, error) {
	found := false
	for _, p := range parts {
		if _, isList := storage(p.values.DataType()).(*arrow.FixedSizeListType); !isList {
			return false, nil
		}
		data, _, err := descend(p.values.Data(), p.from, func(lists arrow.ArrayData, _, _ int64) error {
			found = found || lists.NullN() != 0
			return nil
		})
		if err != nil {
			return false, err
		}
		found = found || data.NullN() != 0
	}
	return found, nil
}

func (a *assembler) fillElements(values, mask *ndview.NDBuffer, fill uint64) error {
	flatValues, err := values.Reshape(values.Size())
	if err != nil {
		return err
	}
	defer flatValues.Release()
	flatMask, err := mask.Reshape(mask.Size())
	if err != nil {
		return err
	}
	defer flatMask.Release()
	return a.run(values.NBytes(), func() error { return flatValues.FillWhere(flatMask, fill) })
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

// assembleCodes turns dictionary indices into codes, on the host.
func (a *assembler) assembleCodes(c *column, parts []part, rows int64) (*chunk, error) {
	codes := make([]int64, 0, rows)
	for _, p := range parts {
		dictionary, ok := unwrap(p.values).(*array.Dictionary)
		if !ok {
			return nil, fmt.Errorf("array of %T for type %s", p.values, p.values.DataType())
		}
		indices := dictionary.Indices()
		index, err := indexReader(indices)
		if err != nil {
			return nil, err
		}
		for i := p.from; i < p.to; i++ {
			if indices.IsNull(int(i)) {
				codes = append(codes, -1)
				continue
			}
			at := index(int(i))
			if at < 0 || at >= int64(len(p.recode)) {
				return nil, fmt.Errorf("index %d into a dictionary of %d values", at, len(p.recode))
			}
			codes = append(codes, p.recode[at])
		}
	}
	values, err := narrow(codes, c.layout.dtype)
	if err != nil {
		return nil, err
	}
	return &chunk{values: values}, nil
}

// narrow makes an array of a signed integer type of values that fit it.
func narrow(codes []int64, dtype ndview.DType) (*ndview.NDBuffer, error) {
	n := int64(len(codes))
	switch dtype {
	case ndview.Int8:
		return ndview.FromHost(arrowbuf.CPU(), dtype, convert[int8](codes), n)
	case ndview.Int16:
		return ndview.FromHost(arrowbuf.CPU(), dtype, convert[int16](codes), n)
	case ndview.Int32:
		return ndview.FromHost(arrowbuf.CPU(), dtype, convert[int32](codes), n)
	default:
		return ndview.FromHost(arrowbuf.CPU(), dtype, codes, n)
	}
}

func convert[T int8 | int16 | int32](codes []int64) []T {
	out := make([]T, len(codes))
	for i, c := range codes {
		out[i] = T(c)
	}
	return out
}
