package arrowzarr

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// dataType is what Zarr calls the elements of the column's values.
func (c *column) dataType() element.Type {
	switch c.form {
	case formText:
		return element.String
	case formBinary:
		return element.Bytes
	case formNull:
		return element.Of(ndview.Bool)
	default:
		return element.Of(c.layout.dtype)
	}
}

// isList tells whether the column is a fixed_size_list, whose elements can be
// missing one by one.
func (c *column) isList() bool {
	_, ok := c.kind.(*arrow.FixedSizeListType)
	return ok
}

// dimensionNames are those of a tensor's axes, behind that of the rows.
func (c *column) dimensionNames() []string {
	if c.tensor == nil || len(c.tensor.DimNames()) == 0 {
		return nil
	}
	return append([]string{""}, c.tensor.DimNames()...)
}

// arrayMetadata is that of an array of rows, none so far, with further axes
// behind the first.
func (c *conversion) arrayMetadata(t element.Type, row []int64) *zarr.ArrayMetadata {
	m := &zarr.ArrayMetadata{
		Shape:      append([]int64{0}, row...),
		DataType:   t,
		ChunkShape: chunkShape(c.grid.chunkRows, row),
		Codecs:     zarr.DefaultCodecs(t, c.options.Codec.codecs()...),
	}
	if c.grid.shardRows > 0 {
		m.Codecs = codec.List{codec.Sharding{ChunkShape: m.ChunkShape, Codecs: m.Codecs}}
		m.ChunkShape = chunkShape(c.grid.shardRows, row)
	}
	return m
}

// chunkShape takes all of the axes behind the first. An extent is at least 1,
// also where there is nothing along the axis.
func chunkShape(rows int64, row []int64) []int64 {
	shape := []int64{rows}
	for _, d := range row {
		shape = append(shape, max(d, 1))
	}
	return shape
}

// codecs are the compressor as a codec list goes on.
func (c Codec) codecs() []codec.Codec {
	switch c.Name {
	case "zstd":
		return []codec.Codec{codec.Zstd{Level: c.Level}}
	case "gzip":
		return []codec.Codec{codec.Gzip{Level: c.Level}}
	default:
		return nil
	}
}

// implementation names what compresses.
func (c Codec) implementation() string {
	switch c.Name {
	case "zstd":
		return codec.ZstdImplementation()
	case "gzip":
		return "Go"
	default:
		return ""
	}
}
