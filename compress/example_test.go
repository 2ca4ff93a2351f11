package compress_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/lz4"
)

// A batch has many inputs in one buffer, here of the CPU. One that is corrupt fails alone.
func Example() {
	block := make([]byte, lz4.Bound(1000))
	n, err := lz4.EncodeBlock(block, bytes.Repeat([]byte("wind "), 200), 1)
	if err != nil {
		panic(err)
	}
	damaged := bytes.Repeat([]byte{0xFF}, n)
	src, err := arrowbuf.CPU().Alloc(int64(2 * n))
	if err != nil {
		panic(err)
	}
	defer src.Release()
	if _, err := src.CopyFromHost(append(block[:n:n], damaged...), 0); err != nil {
		panic(err)
	}
	dst, err := arrowbuf.CPU().Alloc(2000)
	if err != nil {
		panic(err)
	}
	defer dst.Release()

	results, err := lz4.Decode(compress.Batch{
		Src: src, In: []compress.Range{{Offset: 0, Length: int64(n)}, {Offset: int64(n), Length: int64(n)}},
		Dst: dst, Out: []compress.Range{{Offset: 0, Length: 1000}, {Offset: 1000, Length: 1000}},
	}, compress.DecodeOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(results[0].Length, results[0].Err)
	fmt.Println(results[1].Length, errors.Is(results[1].Err, compress.ErrCorrupt))
	// Output:
	// 1000 <nil>
	// 0 true
}
