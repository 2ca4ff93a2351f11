//go:build linux || darwin

package cdevice

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// FuzzImportArray corrupts numbers and pointers of an array's structs, but not so
// that they exceed the memory: an import cannot detect that. The import must return
// an error or an array, and everything must be released.
func FuzzImportArray(f *testing.F) {
	for kind := range byte(8) {
		f.Add(byte(0), kind, kind, int64(-1))
	}
	for i := range len(types) {
		f.Add(byte(i), byte(0), byte(i), int64(i))
		f.Add(byte(i), byte(1), byte(i), int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, which, node, what byte, value int64) {
		g := newGenerator(t)
		dtype := arrow.DataType(everything)
		if which > 0 {
			dtype = types[int(which)%len(types)]
		}
		arr := g.array(dtype, 20, which%2 == 1)
		out := exported(t, arr, arrowbuf.CPU())
		arr.Release()
		all := structsBelow(&out.array)
		c := all[int(node)%len(all)]
		restore := corrupt(c, what, value)
		back, err := ImportArray(out, dtype)
		if err != nil {
			assert.True(t, errors.Is(err, arrow.ErrInvalid) || errors.Is(err, arrow.ErrNotImplemented), err)
			assert.Nil(t, back)
		} else {
			assert.GreaterOrEqual(t, back.Len(), 0)
			back.Release()
		}
		restore()
		require.Zero(t, handleCount())
	})
}

// corrupt changes a field of a struct. restore undoes the change if it hides a child
// from its parent.
func corrupt(c *Array, what byte, value int64) (restore func()) {
	restore = func() {}
	kept := *c
	switch what % 10 {
	case 0:
		c.length = validLength(value, c.length)
	case 1:
		c.length = validLength(value, c.length)
		c.offset = validLength(value>>8, max(0, kept.length-c.length))
	case 2:
		c.nulls = value
	case 3:
		if c.nBuffers = value; c.nBuffers > kept.nBuffers { // view arrays have any number of buffers
			c.nBuffers = kept.nBuffers
		}
	case 4:
		c.nChildren = value
	case 5:
		c.children = 0
	case 6:
		c.buffers = 0
	case 7:
		c.dictionary = 0
		restore = func() { c.dictionary = kept.dictionary; releaseHidden(c.dictionary) }
	case 8:
		if kept.nBuffers > 0 {
			*c.buffer(int(uint64(value) % uint64(kept.nBuffers))) = 0
		}
	case 9:
		c.release = 0
		restore = func() { c.release = kept.release; releaseHidden(addressOf(c)) }
	}
	return restore
}

// validLength returns a length within the memory, or one that no memory can have.
func validLength(value, most int64) int64 {
	if value >= 0 && value < math.MaxInt64-64 {
		return value % (most + 1)
	}
	return value
}

// releaseHidden releases a struct that its parent could not reach.
func releaseHidden(address uintptr) {
	if address == 0 {
		return
	}
	c := (*Array)(pointer(address))
	if _, there := handles.Load(c.private); there && c.release != 0 {
		releaseArray(c)
	}
}

// structsBelow returns a struct and all that it points to.
func structsBelow(c *Array) []*Array {
	all := []*Array{c}
	for _, part := range c.childStructs() {
		all = append(all, structsBelow(part)...)
	}
	if c.dictionary != 0 {
		all = append(all, structsBelow((*Array)(pointer(c.dictionary)))...)
	}
	return all
}

// FuzzImportField imports fields with any format, flags and children. An imported
// field must export to the same struct.
func FuzzImportField(f *testing.F) {
	for _, dtype := range types {
		if format, flags, err := formatOf(storageOf(dtype)); err == nil {
			f.Add(format, "name", flags, int8(len(fieldsOf(storageOf(dtype)))), dtype.ID() == arrow.DICTIONARY)
		}
	}
	f.Add("+us:1,1", "", int64(-1), int8(2), false)
	f.Add("tsn:a b", "x", int64(3), int8(0), false)
	f.Fuzz(func(t *testing.T, format, name string, flags int64, children int8, dictionary bool) {
		if strings.ContainsRune(format+name, 0) {
			t.Skip("C's strings end there")
		}
		var pinned runtime.Pinner
		defer pinned.Unpin()
		var parts []arrow.Field
		for i := range min(children, 5) {
			parts = append(parts, arrow.Field{Name: "child", Type: []arrow.DataType{arrow.PrimitiveTypes.Int32, pair}[i%2]})
		}
		// The fields are replaced; children and dictionary are kept.
		like := arrow.Field{Type: arrow.StructOf(parts...)}
		if dictionary {
			like.Type = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: pair}
		}
		var s Schema
		require.NoError(t, ExportField(like, &s))
		s.format, s.name, s.flags = pinSlice(&pinned, append([]byte(format), 0)), pinSlice(&pinned, append([]byte(name), 0)), flags
		field, err := ImportField(&s)
		if err != nil {
			assert.ErrorIs(t, err, arrow.ErrInvalid)
		} else {
			require.NoError(t, ExportField(field, &s))
			again, err := ImportField(&s)
			require.NoError(t, err)
			assert.True(t, field.Equal(again), "%v\n%v", field, again)
		}
		require.Zero(t, handleCount())
	})
}
