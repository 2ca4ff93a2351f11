package zstd_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/zstd"
)

func ExampleEncodeFrame() {
	src := bytes.Repeat([]byte("to and fro, "), 1000)
	frame, err := zstd.EncodeFrame(nil, src, zstd.EncodeOptions{Level: 3, Checksum: true})
	if err != nil {
		panic(err)
	}
	back, err := zstd.DecodeFrames(nil, frame, int64(len(src)))
	fmt.Println(len(frame) < 100, bytes.Equal(src, back), err)

	// The limit is what a reader expects at most: a frame may claim any size.
	_, err = zstd.DecodeFrames(nil, frame, 100)
	fmt.Println(errors.Is(err, compress.ErrTooLarge))
	// Output:
	// true true <nil>
	// true
}
