package codec_test

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
)

func Example() {
	list := codec.List{codec.Bytes{Endian: codec.Little}, codec.CRC32C{}}
	chain, err := list.Compile(codec.ChunkSpec{Type: element.Of(ndview.Int16), Shape: []int64{4}, Fill: []byte{0, 0}})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, _ := ndview.FromHost(arrowbuf.CPU(), ndview.Int16, []int16{1, 2, 3}, 3) // an edge chunk
	defer v.Release()
	s := codec.GetScratch()
	defer s.Release()
	enc, _ := chain.Encode(s, v)
	fmt.Printf("%x", enc)
	// Output: 010002000300000057e6ba7c
}
