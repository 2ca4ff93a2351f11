package handle_test

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ipc/handle"
)

// A descriptor of a slice keeps the slice's offset.
func Example() {
	d := handle.Descriptor{Mechanism: handle.CUDAFD, AllocationSize: 2 << 20, Length: 2 << 20}
	column, err := d.Part(4096, 800)
	if err != nil {
		fmt.Println(err)
		return
	}
	sent, err := column.MarshalBinary()
	if err != nil {
		fmt.Println(err)
		return
	}
	var got handle.Descriptor
	if err := got.UnmarshalBinary(sent); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(sent), got.Mechanism, got.Offset, got.Length)
	// Output: 88 cuda-fd 4096 800
}
