package kernel_test

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

// A leaky ReLU on a GPU. Without one, the constructor reports it.
func ExampleNewElementwise() {
	leaky := func(dev arrowbuf.Device, x *ndview.NDBuffer) error {
		k, err := kernel.NewElementwise(dev, "x = x > 0 ? x : slope * x", "",
			kernel.Arg{Name: "x", DType: dtype.Float32, Read: true, Write: true},
			kernel.Arg{Name: "slope", DType: dtype.Float32, Scalar: true})
		if err != nil {
			return err
		}
		return k.Run(x, 0.01)
	}
	dev := arrowbuf.CPU() // or a device of cudabuf.Open
	x, err := ndview.FromHost(dev, dtype.Float32, []float32{-1, 0, 1}, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Release()
	if err := leaky(dev, x); errors.Is(err, arrowbuf.ErrDevice) {
		fmt.Println("no CUDA device")
	}
	// Output: no CUDA device
}

// The sum of squares of each row.
func ExampleNewReduction() {
	squares := func(dev arrowbuf.Device, matrix *ndview.NDBuffer) (*ndview.NDBuffer, error) {
		k, err := kernel.NewReduction(dev, kernel.ReductionSource{Out: dtype.Float64, Neutral: "0", Reduce: "a + b", Map: "x * x"},
			kernel.Arg{Name: "x", DType: dtype.Float64, Read: true})
		if err != nil {
			return nil, err
		}
		return k.Of([]int{1}, false, matrix)
	}
	_ = squares
}
