package lz4_test

import (
	"bytes"
	"fmt"

	"github.com/quiver-gpu/quiver/compress/lz4"
)

// A block does not say how many bytes it decodes to; its reader must know.
func ExampleEncodeBlock() {
	src := bytes.Repeat([]byte("to and fro, "), 1000)
	block := make([]byte, lz4.Bound(int64(len(src))))
	n, err := lz4.EncodeBlock(block, src, 1)
	if err != nil {
		panic(err)
	}
	back := make([]byte, len(src))
	err = lz4.DecodeBlock(back, block[:n])
	fmt.Println(n < 200, bytes.Equal(src, back), err)
	// Output: true true <nil>
}
