package arrowzarr

import (
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// Effort is the speed class of the codec auto: which codecs it chooses from.
type Effort string

// The efforts, from fast to slow.
const (
	Fast     Effort = "fast"     // Blosc's LZ4, or none
	Balanced Effort = "balanced" // also low levels of zstd
	Small    Effort = "small"    // also high levels of zstd, which encode a few MB per second
)

// autoCandidates are the codecs of each effort, about from fast to slow. The sets are
// fixed, so that the same input has the same output on every machine.
var autoCandidates = func() map[Effort]codecSet {
	b := func(inner string, level int, shuffle string) Codec {
		return Codec{Name: "blosc", Inner: inner, Level: level, Shuffle: shuffle}
	}
	zstd := func(level int) Codec { return Codec{Name: "zstd", Level: level} }
	fast := codecSet{{Name: "none"}, b("lz4", 5, "shuffle"), b("lz4", 5, "bitshuffle"), b("lz4", 5, "noshuffle")}
	balanced := slices.Concat(fast, codecSet{zstd(1), b("zstd", 5, "shuffle"), b("zstd", 5, "bitshuffle"), zstd(3)})
	small := slices.Concat(balanced, codecSet{zstd(9), b("zstd", 9, "shuffle"), b("zstd", 9, "bitshuffle"), zstd(19)})
	return map[Effort]codecSet{Fast: fast, Balanced: balanced, Small: small}
}()

// unsampled is the codec of an array of which the sample has no elements.
func (e Effort) unsampled() Codec {
	if e == Fast {
		return autoCandidates[Fast][1]
	}
	return DefaultCodec
}

const (
	// sampleBytes is about the size of the sample of a column.
	sampleBytes = 1 << 20
	// leastSaving is the part of the size that a candidate must save to be taken
	// instead of an earlier one.
	leastSaving = 0.01
)

// sample is elements of an array of a column.
type sample struct {
	array  string
	class  Class
	typ    element.Type
	values element.Values
}

// chooseCodecs decides the codecs of the arrays that have the codec auto, by the first
// rows of the batch. The batch has the columns.
func chooseCodecs(columns []*column, batch arrow.RecordBatch, jobs int) error {
	var group errgroup.Group
	group.SetLimit(jobs)
	for i, c := range columns {
		if !c.codecs.hasAuto() {
			continue
		}
		group.Go(func() error {
			if err := arrowdata.CatchPanic(func() error { return c.chooseCodecs(batch.Column(i)) }); err != nil {
				return partErrorf(partOf(err, PartInput), "column %q: %w", c.field.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (c *column) chooseCodecs(values arrow.Array) error {
	samples, err := c.samples(columnSlice{values: values, to: sampleRows(values)})
	defer func() {
		for _, s := range samples {
			s.values.Release()
		}
	}()
	for _, s := range samples {
		if err == nil {
			err = c.codecs.choose(s)
		}
	}
	return err
}

// sampleRows is the number of rows of an array that a sample has.
func sampleRows(values arrow.Array) int64 {
	perRow := float64(arrowdata.ArrayBytes(values.Data(), arrowdata.BufferLen)) / float64(max(values.Len(), 1))
	return min(int64(values.Len()), max(int64(sampleBytes/max(perRow, 1)), 1))
}

// choose decides the codec of the array that a sample is of, if that has the codec auto.
func (c *columnCodecs) choose(s sample) error {
	given := c.byClass[s.class]
	if given.Name != "auto" || s.values.Shape()[0] == 0 {
		return nil
	}
	best, least := Codec{}, math.Inf(1)
	for _, candidate := range autoCandidates[given.Effort] {
		size, err := encodedSize(s, candidate)
		if err != nil {
			return err
		}
		if float64(size) < least*(1-leastSaving) {
			best, least = candidate, float64(size)
		}
	}
	if c.chosen == nil {
		c.chosen = map[string]Codec{}
	}
	c.chosen[s.array] = best
	return nil
}

// encodedSize is the size of a sample that a codec encodes.
func encodedSize(s sample, c Codec) (int, error) {
	shape := slices.Clone(s.values.Shape())
	for i := range shape {
		shape[i] = max(shape[i], 1)
	}
	spec := codec.ChunkSpec{Type: s.typ, Shape: shape, Fill: make([]byte, s.typ.Size())}
	chain, err := zarr.DefaultCodecs(s.typ, c.codecs(s.class, s.typ)...).Compile(spec)
	if err != nil {
		return 0, err
	}
	scratch := codec.GetScratch()
	defer scratch.Release()
	encoded, err := chain.Encode(scratch, s.values)
	return len(encoded), err
}

// Names of the arrays of a column that is not nested. A nested column has those of its
// nodes.
const (
	arrayValues     = "values" // also codes
	arrayMask       = "mask"
	arrayElements   = "element_mask"
	arrayCategories = "categories"
)

// samples returns the arrays of rows of the column. The caller must release them.
func (c *column) samples(rows columnSlice) ([]sample, error) {
	if c.kind == kindNested {
		return c.nestedSamples(rows)
	}
	inputs := []columnSlice{rows}
	if c.runs {
		decoded, err := decodeRuns(inputs)
		if err != nil {
			return nil, err
		}
		defer func() { arrowdata.ReleaseArrays(decoded) }()
	}
	if c.kind == kindDictionary {
		return c.dictionarySamples(inputs[0])
	}
	a := assembler{device: arrowbuf.CPU(), kernels: &stageStats{}}
	arrays, err := a.assemble(c, inputs, inputs[0].rows())
	if err != nil {
		return nil, err
	}
	var all []sample
	if arrays.values != nil {
		all = append(all, sample{arrayValues, c.class(), c.dataType(), arrays.values})
	}
	if arrays.mask != nil {
		all = append(all, sample{arrayMask, ClassBool, element.Of(ndview.Bool), arrays.mask})
	}
	if arrays.elementMask != nil {
		all = append(all, sample{arrayElements, ClassBool, element.Of(ndview.Bool), arrays.elementMask})
	}
	return all, nil
}

// dictionarySamples returns the codes and the categories of a dictionary column. The
// indices and values of the batch are about as those will be.
func (c *column) dictionarySamples(rows columnSlice) (all []sample, err error) {
	dictionary, ok := arrowdata.Unwrap(rows.values).(*array.Dictionary)
	if !ok {
		return nil, fmt.Errorf("array of %T, expected a dictionary: %w", rows.values, arrowdata.ErrMalformed)
	}
	values := dictionary.Dictionary()
	rows.codes = make(codeMap, values.Len())
	for i := range rows.codes {
		rows.codes[i] = uint32(i)
	}
	arrays, err := assembleCodes(c, []columnSlice{rows}, rows.rows())
	if err != nil {
		return nil, err
	}
	all = append(all, sample{arrayValues, c.class(), c.dataType(), arrays.values})
	categories, err := newColumn(categoriesField(c.storage.(*arrow.DictionaryType)))
	if err != nil {
		return all, err
	}
	first := columnSlice{values: values, to: sampleRows(values)}
	more, err := categories.samples(first)
	for _, s := range more {
		if s.array != arrayValues {
			s.values.Release()
			continue
		}
		s.array = arrayCategories
		all = append(all, s)
	}
	return all, err
}

// nestedSamples returns the arrays of a nested column.
func (c *column) nestedSamples(rows columnSlice) (all []sample, err error) {
	sink := &streamSink{builder: arrayBuilder{grid: rowGrid{chunkRows: 1 << 40}}} // so nothing is sent
	w := newNodeWriter(c.nested, sink, newCategoryMemory(math.MaxInt64))
	defer w.release()
	if err := w.append(rows.values, rows.from, rows.to); err != nil {
		return nil, err
	}
	err = w.streams(func(s *arrayStream) error {
		if !s.started {
			return nil // it has fill values only
		}
		values, err := s.values(s.takePending())
		if err == nil {
			all = append(all, sample{s.name, s.class, element.Of(s.dtype), values})
		}
		return err
	})
	return all, err
}
