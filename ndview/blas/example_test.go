package blas_test

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/blas"
)

func Example() {
	s := ndview.NewScope()
	defer s.Release()
	dev := arrowbuf.CPU() // or a GPU, see cudabuf.OpenDevice
	a, _ := s.Add(ndview.FromSlice(dev, [][]float32{{1, 2}, {3, 4}}))
	b, _ := s.Add(ndview.FromSlice(dev, [][]float32{{5, 6}, {7, 8}}))

	c, err := blas.MatMul(a, b, blas.Options{})
	fmt.Println(c, err)

	// c = 2 aᵀ b - c
	err = blas.GemmInto(c, a, b, blas.Options{Alpha: 2, Beta: -1, TransA: blas.Transpose})
	fmt.Println(c, err)
	// Output:
	// [[19 22]
	//  [43 50]] <nil>
	// [[33 38]
	//  [33 38]] <nil>
}
