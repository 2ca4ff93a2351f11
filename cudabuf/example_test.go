package cudabuf_test

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func Example() {
	// A program calls cudabuf.Open, and uses arrowbuf.CPU if there is no GPU. This
	// example uses a simulated device.
	driver := cudatest.New(cudatest.Config{})
	defer func() { _ = driver.Close() }()
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
	if _, err := buffer.WriteAt([]byte("columns on a GPU"), 0); err != nil {
		fmt.Println(err)
	}

	word, err := buffer.Slice(13, 3) // a view of the same memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer word.Release()
	text := make([]byte, word.Len())
	_, err = word.ReadAt(text, 0)
	fmt.Printf("%s of %v, %v\n", text, word.Device(), err)

	_, err = buffer.WriteAt(text, 15)
	fmt.Println(errors.Is(err, arrowbuf.ErrOutOfRange))
	// Output:
	// GPU of cuda:0, <nil>
	// true
}

func ExampleOpen() {
	driver, err := cudabuf.Open()
	if errors.Is(err, cudabuf.ErrNoDriver) || errors.Is(err, cudabuf.ErrNoDevice) {
		return // use arrowbuf.CPU() instead
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = driver.Close() }()
	fmt.Println(driver.Count(), "GPUs")
}
