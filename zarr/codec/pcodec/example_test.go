package pcodec_test

import (
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/codec/pcodec"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// Times of samples, taken every 25 ms, take less than a twentieth of their size.
func ExampleCodec_Serializer() {
	times := make([]byte, 0, 8000)
	for i := range 1000 {
		times = binary.LittleEndian.AppendUint64(times, uint64(1_700_000_000_000+25*i))
	}
	s, err := pcodec.Default().Serializer(codec.ChunkSpec{Type: element.Of(ndview.Int64), Shape: []int64{1000}, Fill: make([]byte, 8)})
	if err != nil {
		panic(err)
	}
	encoded, err := s.Encode(nil, times)
	fmt.Println(len(encoded) < len(times)/20, err)
	// Output: true <nil>
}
