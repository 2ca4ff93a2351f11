package crc32c_test

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/crc32c"
)

// A checksum is stored after the data, as Zarr's codec does.
func ExampleSums() {
	chunk := []byte("123456789....")
	buf, err := arrowbuf.CPU().Alloc(int64(len(chunk)))
	if err != nil {
		panic(err)
	}
	defer buf.Release()
	if _, err := buf.CopyFromHost(chunk, 0); err != nil {
		panic(err)
	}
	b := compress.Batch{
		Src: buf, In: []compress.Range{{Offset: 0, Length: 9}},
		Dst: buf, Out: []compress.Range{{Offset: 9, Length: crc32c.Size}},
	}
	if err := crc32c.Sums(b); err != nil {
		panic(err)
	}
	if _, err := buf.CopyToHost(chunk, 0); err != nil {
		panic(err)
	}
	results, err := crc32c.Verify(b)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%x %v\n", chunk[9:], results[0].Err)
	// Output: 839206e3 <nil>
}
