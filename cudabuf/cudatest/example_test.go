package cudatest_test

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// Two simulated GPUs, on which a kernel runs as its host implementation.
func Example() {
	machine := cudatest.New(cudatest.Config{Devices: 2, MemoryBytes: 64 << 20})
	defer func() {
		if err := machine.Close(); err != nil {
			fmt.Println("leaks:", err)
		}
	}()
	first, _ := machine.Device(0)
	second, _ := machine.Device(1)

	increment := &cudabuf.Program{
		Image: []byte("what a GPU would load"),
		HostKernels: map[string]cudabuf.HostKernel{"increment": func(l *cudabuf.HostLaunch) {
			values := cudabuf.Elements[int32](l, l.Pointer(0), l.Int64(1))
			for i := range values {
				values[i]++
			}
		}},
	}
	kernel, _ := first.Kernel(increment, "increment")
	b, _ := first.FromHost([]byte{1, 0, 0, 0, 2, 0, 0, 0})
	defer b.Release()
	if err := kernel.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b, int64(2)); err != nil {
		fmt.Println(err)
	}
	moved, _ := second.CopyOf(b)
	defer moved.Release()
	values, _ := moved.Bytes()
	fmt.Printf("%v %d\n", moved.Device(), values)
	// Output: cuda:1 [2 0 0 0 3 0 0 0]
}

// The third allocation of the program fails.
func ExampleFailNth() {
	machine := cudatest.New(cudatest.Config{Fail: cudatest.FailNth("cuMemAlloc", 3, cudatest.OutOfMemory)})
	defer func() { _ = machine.Close() }()
	gpu, _ := machine.Device(0)
	pool, _ := gpu.NewPool(cudabuf.PoolOptions{Kind: cudabuf.DirectPool})
	for i := range 4 {
		b, err := pool.Alloc(100)
		if err != nil {
			fmt.Println(i, errors.Is(err, arrowbuf.ErrOutOfMemory))
			continue
		}
		fmt.Println(i, b.Len())
		b.Release()
	}
	// Output:
	// 0 100
	// 1 100
	// 2 true
	// 3 100
}

// Each driver call of a piece of work fails once, from the first one on.
func ExampleFailAt() {
	work := func(d *cudabuf.Driver) error {
		dev, err := d.Device(0)
		if err != nil {
			return err
		}
		b, err := dev.FromHost([]byte("some bytes"))
		if err != nil {
			return err
		}
		defer b.Release()
		_, err = b.Bytes()
		return err
	}
	for n := 1; ; n++ {
		d := cudatest.New(cudatest.Config{Fail: cudatest.FailAt(n, cudatest.OutOfMemory)})
		err := work(d)
		if closing := d.Close(); closing != nil && err == nil {
			err = closing
		}
		if err == nil {
			fmt.Println("the work has more than 5 calls:", n > 5)
			return
		}
		if !errors.Is(err, arrowbuf.ErrOutOfMemory) {
			fmt.Println("call", n, "failed with another error:", err)
		}
	}
	// Output: the work has more than 5 calls: true
}
