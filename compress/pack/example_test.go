package pack_test

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/pack"
)

// Two words of a buffer are joined in another order.
func ExampleCopy() {
	dev := arrowbuf.CPU()
	src, err := dev.Alloc(12)
	if err != nil {
		panic(err)
	}
	defer src.Release()
	dst, err := dev.Alloc(11)
	if err != nil {
		panic(err)
	}
	defer dst.Release()
	if _, err := src.CopyFromHost([]byte("world hello "), 0); err != nil {
		panic(err)
	}
	err = pack.Copy(compress.Batch{
		Src: src, In: []compress.Range{{Offset: 6, Length: 6}, {Offset: 0, Length: 5}},
		Dst: dst, Out: []compress.Range{{Offset: 0, Length: 6}, {Offset: 6, Length: 5}},
	})
	if err != nil {
		panic(err)
	}
	joined := make([]byte, 11)
	if _, err := dst.CopyToHost(joined, 0); err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", joined)
	// Output: hello world
}
