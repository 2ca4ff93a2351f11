package columns_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// Joins two chunks of a column on a device and takes some of its elements. The same
// code runs on a GPU with a device of package cudabuf.
func Example() {
	device := arrowbuf.CPU()
	var chunks []arrow.Array
	for _, text := range []string{`["red", "green"]`, `[null, "blue"]`} {
		chunk, _, err := array.FromJSON(memory.DefaultAllocator, arrow.BinaryTypes.String, strings.NewReader(text))
		if err != nil {
			log.Fatal(err)
		}
		defer chunk.Release()
		moved, err := arrowbuf.CopyArrayTo(chunk, device)
		if err != nil {
			log.Fatal(err)
		}
		defer moved.Release()
		chunks = append(chunks, moved)
	}
	column, err := columns.Concatenate(chunks...)
	if err != nil {
		log.Fatal(err)
	}
	defer column.Release()
	taken, err := columns.Take(column, columns.Indices(3, 2, 0))
	if err != nil {
		log.Fatal(err)
	}
	defer taken.Release()
	fmt.Println(column, taken)
	// Output:
	// ["red" "green" (null) "blue"] ["blue" (null) "red"]
}
