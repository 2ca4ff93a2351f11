package parquetcolumn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/compress"
)

// valueDecoder decodes the values of a page, which has none for nulls.
type valueDecoder struct {
	plain   []byte // the values that are not decoded, unless they are indices or bits
	bits    []byte // of Booleans
	bit     int    // the next of them
	isIndex bool
	indices hybrid // into the dictionary, or Booleans
	isRLE   bool   // indices are Booleans
}

// dictionary is the dictionary of a row group.
type dictionary struct {
	n             int
	fixed         []byte         // values of fixed width
	offsets, text *memory.Buffer // of text
	page          []byte         // of which text is a part; nil if it has memory of its own
	inWindow      bool           // the page is not compressed
}

// release releases the dictionary. The memory of its page is that of the next one.
func (d *dictionary) release(m *pageMemory) {
	if d.offsets != nil {
		d.offsets.Release()
		d.text.Release()
	}
	if m != nil && d.inWindow && cap(d.page) > cap(m.window) {
		m.window = d.page[:0]
	} else if m != nil && !d.inWindow && cap(d.page) > cap(m.body) {
		m.body = d.page
	}
	*d = dictionary{}
}

// block is how many indices are decoded at once.
const block = 4096

func errCutOff(what string) error { return fmt.Errorf("%s that are cut off: %w", what, ErrMalformed) }

func (l *leaf) beginValues(found page) error {
	l.values = valueDecoder{}
	if found.encoding >= encodingDeltaBinaryPacked && found.encoding != encodingRLEDictionary {
		var err error
		if found.values, err = l.toPlain(found); err != nil {
			return err
		}
		found.encoding = encodingPlain
	}
	switch found.encoding {
	case encodingPlain:
		if l.form.dictionary != nil {
			return fmt.Errorf("dictionary with a page of values: %w", errors.ErrUnsupported)
		}
		if l.form.kind == kindBits {
			l.values.bits = found.values
		} else {
			l.values.plain = found.values
		}
	case encodingPlainDictionary, encodingRLEDictionary:
		l.values.isIndex = true
		if len(found.values) == 0 { // all are null
			return nil
		}
		width := int(found.values[0])
		if width > maxWidth || l.form.kind == kindBits {
			return fmt.Errorf("dictionary indices of %d bits: %w", width, ErrMalformed)
		}
		l.values.indices = newHybrid(found.values[1:], width)
	case encodingRLE:
		if l.form.kind != kindBits {
			return fmt.Errorf("values in encoding RLE: %w", errors.ErrUnsupported)
		}
		if len(found.values) < 4 || int64(binary.LittleEndian.Uint32(found.values)) > int64(len(found.values)-4) {
			return errCutOff("Booleans")
		}
		l.values.isRLE = true
		l.values.indices = newHybrid(found.values[4:], 1)
	default:
		return fmt.Errorf("values in encoding %d: %w", found.encoding, errors.ErrUnsupported)
	}
	return nil
}

// readDictionary decodes the dictionary of the row group.
func (l *leaf) readDictionary(found page) error {
	l.words.release(l.pages.memory)
	if found.encoding != encodingPlain && found.encoding != encodingPlainDictionary {
		return fmt.Errorf("dictionary in encoding %d: %w", found.encoding, errors.ErrUnsupported)
	}
	n, in := int(found.pageHeader.values), found.values
	if l.form.kind == kindBits {
		return fmt.Errorf("dictionary of Booleans: %w", ErrMalformed)
	}
	if !l.form.isBytes() {
		if int64(n)*int64(l.form.width) > int64(len(in)) {
			return errCutOff("values of a dictionary")
		}
		l.words = dictionary{n: n, fixed: append(make([]byte, 0, n*l.form.width+spare), in[:n*l.form.width]...)}
		return nil
	}
	if 4*int64(n) > int64(len(in)) {
		return errCutOff("values of a dictionary")
	}
	if len(in) > largeDictionary && l.form.isText() { // arrays of indices keep the dictionary
		return l.keepDictionary(in, n)
	}
	o := output{offsets: memory.NewResizableBuffer(l.options.Memory), text: memory.NewResizableBuffer(l.options.Memory)}
	v := valueDecoder{plain: in}
	o.text.Reserve(len(in) - 4*n + spare)
	err := v.text(&o, nil, n)
	l.words = dictionary{n: n, offsets: o.offsets, text: o.text}
	return err
}

// largeDictionary is the size of a page that becomes the dictionary, without a copy.
const largeDictionary = 1 << 20

// keepDictionary makes a page of n texts the dictionary of the row group.
func (l *leaf) keepDictionary(in []byte, n int) error {
	offsets := memory.NewResizableBuffer(l.options.Memory)
	offsets.Resize(4 * (n + 1))
	l.words = dictionary{n: n, offsets: offsets, text: memory.NewBufferBytes(nil), page: in, inWindow: l.pages.codec == compress.Codecs.Uncompressed}
	l.pages.memory.body, l.pages.memory.window = nil, nil // one of them is the page
	ends, text := view32(offsets.Bytes()), in[:0]
	ends[0] = 0
	for i := range n {
		if len(in) < 4 || int64(binary.LittleEndian.Uint32(in)) > int64(len(in)-4) {
			return errCutOff("values of a dictionary")
		}
		size := int(binary.LittleEndian.Uint32(in))
		if len(text)+size > math.MaxInt32 {
			return errLongText
		}
		text, in = append(text, in[4:4+size]...), in[4+size:]
		ends[i+1] = int32(len(text))
	}
	l.words.text = memory.NewBufferBytes(text)
	return nil
}

// skip skips values.
func (v *valueDecoder) skip(l *leaf, values int) error {
	var indices [block]uint32
	switch {
	case v.isIndex || v.isRLE:
		for values > 0 {
			n := min(values, block)
			if err := v.indices.numbers(indices[:n]); err != nil {
				return err
			}
			values -= n
		}
	case l.form.kind == kindBits:
		v.bit += values
	case l.form.isBytes():
		for ; values > 0; values-- {
			if len(v.plain) < 4 || int64(binary.LittleEndian.Uint32(v.plain)) > int64(len(v.plain)-4) {
				return errCutOff("values")
			}
			v.plain = v.plain[4+binary.LittleEndian.Uint32(v.plain):]
		}
	default:
		if values*l.form.width > len(v.plain) {
			return errCutOff("values")
		}
		v.plain = v.plain[values*l.form.width:]
	}
	return nil
}

// appendSlots appends slots, of which some have values. valid has 1 for each slot with a value,
// and 0 for others; nil if all have.
func (l *leaf) appendSlots(valid []byte, slots, values int) error {
	o := &l.out
	l.appendValidity(valid, slots)
	var err error
	switch width := l.form.width; l.form.kind {
	case kindBits:
		grow(o.fixed, int(bitutil.BytesForBits(int64(o.slots))), slots/8+1)
		err = l.values.booleans(o.fixed.Bytes(), o.slots, valid, slots, values)
	case kindText:
		if l.values.isIndex {
			err = l.values.words(l.pages.memory, o, &l.words, valid, slots)
		} else {
			err = l.values.text(o, valid, slots)
		}
	case kindIndices:
		out := grow(o.fixed, o.slots*4, slots*4)[o.slots*4:]
		err = l.values.eachBlock(l.pages.memory, l.words.n, valid, slots, func(at int, indices []uint32, valid []byte) bool {
			if valid == nil {
				copy(out[4*at:], asBytes(indices))
			} else {
				spread[uint32](out[4*at:], asBytes(indices), valid)
			}
			return len(indices) == 0 || int64(slices.Max(indices)) < int64(l.words.n)
		})
	default:
		out := grow(o.fixed, o.slots*width, slots*width)[o.slots*width:]
		if l.values.isIndex {
			err = l.values.gather(l.pages.memory, out, &l.words, valid, slots, width)
		} else {
			err = l.values.fixed(out, valid, values, width)
		}
	}
	o.slots += slots
	o.nulls += slots - values
	return err
}

// appendValidity appends to the bitmap, which is made for the first null.
func (l *leaf) appendValidity(valid []byte, slots int) {
	o := &l.out
	if o.bitmap == nil || valid == nil && o.nulls == 0 {
		return
	}
	have := int(bitutil.BytesForBits(int64(o.slots)))
	if o.nulls == 0 {
		fill(grow(o.bitmap, 0, have), 0xff)
	}
	bitmap := grow(o.bitmap, have, slots/8+1)
	if valid == nil {
		bitutil.SetBitsTo(bitmap, int64(o.slots), int64(slots), true)
	} else {
		packBits(bitmap, o.slots, valid)
	}
}

func asBytes(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 4*cap(words))[:4*len(words)]
}

// fixed decodes plain values of fixed width.
func (v *valueDecoder) fixed(out, valid []byte, values, width int) error {
	if values*width > len(v.plain) {
		return errCutOff("values")
	}
	in := v.plain[:values*width]
	v.plain = v.plain[values*width:]
	switch {
	case valid == nil:
		copy(out, in)
	case width == 4:
		spread[uint32](out, in, valid)
	case width == 8:
		spread[uint64](out, in, valid)
	default:
		for i, b := range valid {
			if b == 0 {
				clear(out[i*width : (i+1)*width])
			} else {
				copy(out[i*width:(i+1)*width], in)
				in = in[width:]
			}
		}
	}
	return nil
}

// view returns bytes as numbers, which need not be aligned.
func view[T uint32 | uint64](b []byte, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// spread writes each number to the next slot that has one, and 0 to the others. The number
// after the last must be in the memory of in, too: a loop without branches reads it.
func spread[T uint32 | uint64](out, in, valid []byte) {
	size := int(unsafe.Sizeof(T(0)))
	if len(in) == 0 {
		clear(out[:len(valid)*size])
		return
	}
	if cap(in) < len(in)+size {
		in = append(make([]byte, 0, len(in)+size), in...)
	}
	numbers, slots := view[T](in, len(in)/size+1), view[T](out, len(valid))
	at := 0
	for i, b := range valid {
		slots[i] = numbers[at] & -T(b)
		at += int(b)
	}
}

// eachBlock calls do with the indices of some slots at a time, and which of these slots
// have one. do returns false if an index is not less than n.
func (v *valueDecoder) eachBlock(m *pageMemory, n int, valid []byte, slots int, do func(at int, indices []uint32, valid []byte) bool) error {
	m.indices = resize(m.indices, block+1)
	for at := 0; at < slots; at += block {
		size := min(block, slots-at)
		values, part := size, []byte(nil)
		if valid != nil {
			part = valid[at : at+size]
			if values = countOnes(part); values == size {
				part = nil
			}
		}
		indices := m.indices[:values]
		if err := v.indices.numbers(indices); err != nil {
			return err
		}
		m.indices[values] = 0
		if !do(at, indices, part) {
			return fmt.Errorf("index %d into a dictionary of %d values: %w", slices.Max(indices), n, ErrMalformed)
		}
	}
	return nil
}

// gather decodes values of fixed width of a dictionary.
func (v *valueDecoder) gather(m *pageMemory, out []byte, words *dictionary, valid []byte, slots, width int) error {
	return v.eachBlock(m, words.n, valid, slots, func(at int, indices []uint32, valid []byte) bool {
		out := out[at*width:]
		switch {
		case len(indices) == 0:
			clear(out[:len(valid)*width])
		case width == 4:
			return gatherNumbers[uint32](out, words.fixed, indices, valid)
		case width == 8:
			return gatherNumbers[uint64](out, words.fixed, indices, valid)
		case int64(slices.Max(indices)) >= int64(words.n):
			return false
		case valid == nil:
			for i, x := range indices {
				copy(out[i*width:(i+1)*width], words.fixed[int(x)*width:])
			}
		default:
			for i, b := range valid {
				if b == 0 {
					clear(out[i*width : (i+1)*width])
				} else {
					copy(out[i*width:(i+1)*width], words.fixed[int(indices[0])*width:])
					indices = indices[1:]
				}
			}
		}
		return true
	})
}

// gatherNumbers writes the numbers at some indices. It returns false if an index is not less
// than their count. The memory of indices has one more, 0.
func gatherNumbers[T uint32 | uint64](out, words []byte, indices []uint32, valid []byte) bool {
	numbers := view[T](words, len(words)/int(unsafe.Sizeof(T(0))))
	if valid == nil {
		slots := view[T](out, len(indices))
		for i, x := range indices {
			if int64(x) >= int64(len(numbers)) {
				return false
			}
			slots[i] = numbers[x]
		}
		return true
	}
	slots := view[T](out, len(valid))
	indices = indices[:len(indices)+1]
	at := 0
	for i, b := range valid {
		x := indices[at]
		if int64(x) >= int64(len(numbers)) {
			return false
		}
		slots[i] = numbers[x] & -T(b)
		at += int(b)
	}
	return true
}

// booleans decodes bits from a slot on.
func (v *valueDecoder) booleans(out []byte, at int, valid []byte, slots, values int) error {
	if !v.isRLE && (v.bit+values+7)/8 > len(v.bits) {
		return errCutOff("Booleans")
	}
	for done := 0; done < slots; done += block {
		size := min(block, slots-done)
		var part []byte
		count := size
		if valid != nil {
			part = valid[done : done+size]
			count = countOnes(part)
		}
		var read, slotBits [block + 8]byte
		if v.isRLE {
			if err := v.indices.bytes(read[:count]); err != nil {
				return err
			}
		} else if count > 0 {
			from := v.bit % 8
			unpackBits(read[:from+count], v.bits[v.bit/8:])
			copy(read[:], read[from:from+count])
			v.bit += count
		}
		if part == nil {
			packBits(out, at+done, read[:size])
			continue
		}
		next := 0
		for i, b := range part {
			slotBits[i] = read[next] & b
			next += int(b)
		}
		packBits(out, at+done, slotBits[:size])
	}
	return nil
}

var errLongText = fmt.Errorf("text of one batch of more than %d bytes: %w", math.MaxInt32, errors.ErrUnsupported)

// growOffsets makes room for the offsets of the ends of more slots, and returns them.
func (o *output) growOffsets(slots int) []int32 {
	if o.offsets.Len() == 0 {
		binary.LittleEndian.PutUint32(grow(o.offsets, 0, 4), 0)
	}
	have := o.offsets.Len()
	return view32(grow(o.offsets, have, 4*slots))[have/4:]
}

// reserveText makes room for bytes of text, and as many as copyShort writes after them.
func (o *output) reserveText(n int) []byte {
	have := o.text.Len()
	grow(o.text, have, n+spare)
	o.text.ResizeNoShrink(have)
	return unsafe.Slice(unsafe.SliceData(o.text.Bytes()), o.text.Cap())
}

// text decodes plain values of any length.
func (v *valueDecoder) text(o *output, valid []byte, slots int) error {
	have := o.text.Len()
	offsets := o.growOffsets(slots)
	in := v.plain
	total := 0
	for i := range offsets { // how much it is
		if valid != nil && valid[i] == 0 {
			offsets[i] = int32(have + total)
			continue
		}
		if len(in) < 4 {
			return errCutOff("values")
		}
		n := int64(binary.LittleEndian.Uint32(in))
		if n > int64(len(in)-4) {
			return errCutOff("values")
		}
		in = in[4+n:]
		if total += int(n); have+total > math.MaxInt32 {
			return errLongText
		}
		offsets[i] = int32(have + total)
	}
	out := o.reserveText(total)
	from := v.plain
	at := have
	for i, end := range offsets {
		if valid != nil && valid[i] == 0 {
			continue
		}
		n := int(end) - at
		copyShort(out[at:], from[4:], n)
		from = from[4+n:]
		at = int(end)
	}
	v.plain = in
	o.text.ResizeNoShrink(have + total)
	return nil
}

// copyShort copies n bytes. It may write up to 16 bytes to out, if in has as many.
func copyShort(out, in []byte, n int) {
	if n <= 16 && len(in) >= 16 && len(out) >= 16 {
		*(*[16]byte)(out) = *(*[16]byte)(in)
		return
	}
	copy(out[:n], in)
}

// words decodes text of a dictionary.
func (v *valueDecoder) words(m *pageMemory, o *output, d *dictionary, valid []byte, slots int) error {
	offsets := o.growOffsets(slots)
	var err error
	var starts []int32
	var text []byte
	if d.n > 0 {
		starts = view32(d.offsets.Bytes())
		text = d.text.Bytes()
	}
	failed := v.eachBlock(m, d.n, valid, slots, func(at int, indices []uint32, valid []byte) bool {
		if err != nil {
			return true
		}
		have := o.text.Len()
		total := have
		for _, x := range indices {
			if int64(x) >= int64(d.n) {
				return false
			}
			total += int(starts[x+1] - starts[x])
		}
		if total > math.MaxInt32 {
			err = errLongText
			return true
		}
		out := o.reserveText(total - have)
		place := offsets[at:]
		next := have
		if valid == nil {
			for i, x := range indices {
				start, end := starts[x], starts[x+1]
				copyShort(out[next:], text[start:], int(end-start))
				next += int(end - start)
				place[i] = int32(next)
			}
		} else {
			for i, b := range valid {
				if b != 0 {
					start, end := starts[indices[0]], starts[indices[0]+1]
					copyShort(out[next:], text[start:], int(end-start))
					next += int(end - start)
					indices = indices[1:]
				}
				place[i] = int32(next)
			}
		}
		o.text.ResizeNoShrink(total)
		return true
	})
	return errors.Join(failed, err)
}

func view32(b []byte) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
