package cudabuf_test

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func Example() {
	// A program calls cudabuf.Open, and goes on with arrowbuf.CPU where there
	// is no GPU. A device in software does for this example.
	driver := cudatest.New(cudatest.Config{})
	defer driver.Close()
	gpu, err := driver.Device(0)
	if err != nil {
		fmt.Println(err)
		return
	}

	buffer, err := gpu.Alloc(16)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer buffer.Release()
	buffer.WriteAt([]byte("columns on a GPU"), 0)

	word, _ := buffer.Slice(13, 3)
	defer word.Release()
	text := make([]byte, word.Len())
	word.ReadAt(text, 0)
	fmt.Printf("%s of %v\n", text, word.Device())

	_, err = buffer.WriteAt(text, 15)
	fmt.Println(errors.Is(err, arrowbuf.ErrOutOfRange))
	// Output:
	// GPU of cuda:0
	// true
}

func ExampleOpen() {
	driver, err := cudabuf.Open()
	if errors.Is(err, cudabuf.ErrNoDriver) || errors.Is(err, cudabuf.ErrNoDevice) {
		return // go on with arrowbuf.CPU()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer driver.Close()
	fmt.Println(driver.Count(), "GPUs")
}
