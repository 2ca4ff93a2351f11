package kernel_test

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

// A leaky ReLU. A GPU runs Code, other devices run Host.
func ExampleNewElementwise() {
	dev := arrowbuf.CPU() // or a device of cudabuf.Open
	leaky, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{
		Code: "x = x > 0 ? x : slope * x",
		Host: func(x []float32, slope float32) {
			for i, v := range x {
				if v <= 0 {
					x[i] = slope * v
				}
			}
		},
	}, kernel.Arg{Name: "x", DType: dtype.Float32, Read: true, Write: true}, kernel.Arg{Name: "slope", DType: dtype.Float32, Scalar: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	x, err := ndview.FromHost(dev, dtype.Float32, []float32{-1, 0, 1}, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Release()
	if err := leaky.Run(x, 0.5); err != nil {
		fmt.Println(err)
		return
	}
	values, err := ndview.ToHost[float32](x)
	fmt.Println(values, err)
	// Output: [-0.5 0 1] <nil>
}

// The sum of squares of each row.
func ExampleNewReduction() {
	dev := arrowbuf.CPU() // or a device of cudabuf.Open
	squares, err := kernel.NewReduction(dev, kernel.ReductionSource{
		Out: dtype.Float64, Neutral: "0", Reduce: "a + b", Map: "x * x",
		Host: kernel.NewHostReduction(0, func(a, b float64) float64 { return a + b }, func(values, x []float64) {
			for i, v := range x {
				values[i] = v * v
			}
		}),
	}, kernel.Arg{Name: "x", DType: dtype.Float64, Read: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	matrix, err := ndview.FromHost(dev, dtype.Float64, []float64{1, 2, 3, 4}, 2, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer matrix.Release()
	sums, err := squares.Of([]int{1}, false, matrix)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sums.Release()
	values, err := ndview.ToHost[float64](sums)
	fmt.Println(values, err)
	// Output: [5 25] <nil>
}
