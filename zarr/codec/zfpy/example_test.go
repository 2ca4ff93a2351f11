package zfpy_test

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/codec/zfpy"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// A smooth field needs a fraction of its size if an error of 0.01 is allowed.
func ExampleCodec_Serializer() {
	const rows, columns = 64, 64
	var field []byte
	for i := range rows * columns {
		v := math.Sin(float64(i/columns)/10) + math.Cos(float64(i%columns)/10)
		field = binary.LittleEndian.AppendUint32(field, math.Float32bits(float32(v)))
	}
	c := zfpy.Codec{Mode: zfpy.FixedAccuracy, Tolerance: 0.01, Rate: -1, Precision: -1}
	s, err := c.Serializer(codec.ChunkSpec{Type: element.Of(ndview.Float32), Shape: []int64{rows, columns}, Fill: make([]byte, 4)})
	if err != nil {
		panic(err)
	}
	encoded, err := s.Encode(nil, field)
	if err != nil {
		panic(err)
	}
	decoded := make([]byte, len(field))
	err = s.Decode(decoded, encoded)
	most := 0.0
	for i := 0; i < len(field); i += 4 {
		a, b := math.Float32frombits(binary.LittleEndian.Uint32(field[i:])), math.Float32frombits(binary.LittleEndian.Uint32(decoded[i:]))
		most = max(most, math.Abs(float64(a-b)))
	}
	fmt.Println(len(encoded) < len(field)/5, most <= 0.01, err)
	// Output: true true <nil>
}
