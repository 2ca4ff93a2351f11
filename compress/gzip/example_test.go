package gzip_test

import (
	"bytes"
	"fmt"

	"github.com/quiver-gpu/quiver/compress/gzip"
)

// A gzip file is one member or several. Its decoder reads all of them.
func ExampleEncodeMember() {
	file, err := gzip.EncodeMember(nil, bytes.Repeat([]byte("to "), 1000), 6)
	if err == nil {
		file, err = gzip.EncodeMember(file, bytes.Repeat([]byte("fro "), 1000), 6)
	}
	if err != nil {
		panic(err)
	}
	text, err := gzip.DecodeMembers(nil, file, 10_000)
	fmt.Println(len(file) < 200, len(text), err)
	// Output: true 7000 <nil>
}
