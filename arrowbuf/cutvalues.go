package arrowbuf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/quiver-gpu/quiver/arrowbuf/internal/integers"
)

// What says where in another buffer or array the elements lie: offsets, views
// and indices. An array that shows the whole of them is taken as it is; of a
// slice they come to the host, which finds what they reach and rebases them.

// binary cuts the bytes of strings and their offsets.
func (c *cutter) binary(out *cut, s span, dtype arrow.DataType, width int) error {
	values := s.buffer(2)
	first, last, err := c.offsets(out, s, width, values.Len())
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	bytes := c.part(values, first, last, 1)
	if text, ok := dtype.(arrow.BinaryDataType); ok && text.IsUtf8() {
		return out.add(bytes, nil)
	}
	return out.add(c.anything(bytes, nil))
}

// offsets cuts the offsets of the elements, so that they start at 0, and
// returns which values they enclose.
func (c *cutter) offsets(out *cut, s span, width, values int) (first, last int, err error) {
	if s.length == 0 {
		c.parts = append(c.parts, hostPart(make([]byte, width), width))
		return 0, 0, out.add(len(c.parts)-1, nil)
	}
	s.length++
	at, err := c.fixed(s, 1, width)
	if err != nil {
		return 0, 0, err
	}
	out.buffers = append(out.buffers, at)
	if p := c.parts[at]; p.isWhole() && !OnHost(p.src) && !c.check && !c.blank {
		// The array shows all, so the device need not be asked where its
		// values end.
		return 0, values, nil
	}
	from, to, err := c.parts[at].ends(width)
	if err != nil {
		return 0, 0, err
	}
	if from < 0 || to < from || to > int64(values) {
		return 0, 0, fmt.Errorf("from %d to %d into %d values: %w", from, to, values, arrow.ErrInvalid)
	}
	if from != 0 && !c.check {
		old, err := c.parts[at].ints(width)
		if err != nil {
			return 0, 0, err
		}
		c.parts[at] = hostPart(old.Less(from).Bytes, width)
	}
	return int(from), int(to), nil
}

// views cuts 16-byte views and the buffers that they point into.
func (c *cutter) views(out *cut, s span) error {
	at, err := c.fixed(s, 1, arrow.ViewHeaderSizeBytes)
	if err != nil {
		return err
	}
	out.buffers = append(out.buffers, at)
	buffers := s.data.Buffers()[min(2, len(s.data.Buffers())):]
	reached := make([]reach, len(buffers))
	for i, b := range buffers {
		reached[i] = reach{0, int64(orEmpty(b).Len())}
	}
	if c.look || c.isSlice(at) {
		if err := c.narrowViews(out, at, reached); err != nil {
			return fmt.Errorf("views: %w", err)
		}
	}
	for i, b := range buffers {
		out.buffers = append(out.buffers, c.part(orEmpty(b), int(reached[i].from), int(reached[i].to), 1))
	}
	return nil
}

// narrowViews narrows the ranges of the buffers to what the views reach. Of null
// elements, which may hold anything, it makes empty views.
func (c *cutter) narrowViews(out *cut, at int, buffers []reach) error {
	const size, inline = arrow.ViewHeaderSizeBytes, 12 // bytes that a view holds itself
	old, err := c.parts[at].bytes()
	if err != nil {
		return err
	}
	isNull, err := c.nulls(out)
	if err != nil {
		return err
	}
	views := append([]byte(nil), old...)
	reached := make([]reach, len(buffers))
	outside := func(yield func(view []byte, buffer uint32, from, to int64) error) error {
		for i := range out.length {
			view := views[i*size : (i+1)*size]
			if isNull(i) {
				clear(view)
			}
			length := int64(int32(binary.LittleEndian.Uint32(view)))
			if length >= 0 && length <= inline {
				continue
			}
			from := int64(int32(binary.LittleEndian.Uint32(view[12:])))
			if err := yield(view, binary.LittleEndian.Uint32(view[8:]), from, from+length); err != nil {
				return err
			}
		}
		return nil
	}
	err = outside(func(_ []byte, buffer uint32, from, to int64) error {
		if int64(buffer) >= int64(len(buffers)) || from < 0 || to < from || to > buffers[buffer].to {
			return fmt.Errorf("bytes [%d, %d) of buffer %d of %d: %w", from, to, buffer, len(buffers), arrow.ErrInvalid)
		}
		reached[buffer].see(from, to)
		return nil
	})
	if err != nil {
		return err
	}
	_ = outside(func(view []byte, buffer uint32, from, _ int64) error {
		binary.LittleEndian.PutUint32(view[12:], uint32(from-reached[buffer].from))
		return nil
	})
	copy(buffers, reached)
	c.parts[at] = hostPart(views, 8)
	return nil
}

// dictionary cuts indices; the dictionary stays whole, since other batches
// share it, unless few elements are looked at.
func (c *cutter) dictionary(out *cut, s span, t *arrow.DictionaryType) error {
	values, ok := s.data.Dictionary().(*array.Data)
	if !ok || values == nil {
		return fmt.Errorf("a dictionary array without its dictionary: %w", arrow.ErrInvalid)
	}
	at, err := c.fixed(s, 1, t.Bytes())
	if err != nil {
		return err
	}
	out.buffers = append(out.buffers, at)
	used := reach{0, int64(values.Len())}
	if c.look {
		if used, err = c.narrowIndices(out, at, t.Bytes(), values.Len()); err != nil {
			return fmt.Errorf("indices: %w", err)
		}
	}
	if copied, ok := c.there[values]; ok {
		out.dictionary = &cut{source: values, built: copied}
		return nil
	}
	dictionary, err := c.array(values, int(used.from), int(used.to-used.from))
	if err != nil {
		return fmt.Errorf("dictionary: %w", err)
	}
	dictionary.source = values
	out.dictionary = &dictionary
	return nil
}

// narrowIndices returns which of n values the indices name, and rebases them.
func (c *cutter) narrowIndices(out *cut, at, width, n int) (used reach, err error) {
	old, err := c.parts[at].ints(width)
	if err != nil {
		return used, err
	}
	isNull, err := c.nulls(out)
	if err != nil {
		return used, err
	}
	// Arrow's indices are never negative, so all read as unsigned.
	index := func(i int) int64 { return old.At(i) & (math.MaxInt64>>(64-8*width)<<1 | 1) }
	for i := range out.length {
		if isNull(i) {
			continue
		}
		if at := index(i); at < 0 || at >= int64(n) {
			return used, fmt.Errorf("%d of %d values: %w", at, n, arrow.ErrInvalid)
		}
		used.see(index(i), index(i)+1)
	}
	rebased := integers.Slice{Bytes: make([]byte, len(old.Bytes)), Width: width}
	for i := range out.length {
		if !isNull(i) {
			rebased.Put(i, index(i)-used.from)
		}
	}
	c.parts[at] = hostPart(rebased.Bytes, width)
	return used, nil
}

// nulls returns which elements of a cut are null.
func (c *cutter) nulls(out *cut) (isNull func(i int) bool, err error) {
	if out.buffers[0] == absent {
		return func(int) bool { return false }, nil
	}
	bits, err := c.parts[out.buffers[0]].bytes()
	return func(i int) bool { return bitutil.BitIsNotSet(bits, i) }, err
}
