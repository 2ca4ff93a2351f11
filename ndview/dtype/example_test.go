package dtype_test

import (
	"fmt"
	"log"

	"github.com/quiver-gpu/quiver/ndview/dtype"
)

// A plain number takes the type of the other operand (NumPy's NEP 50); a typed one
// does not.
func ExampleResultType() {
	half := dtype.Float16
	for _, operands := range [][]any{{half, 2.5}, {half, float32(2.5)}, {dtype.Int8, 2}, {dtype.Int8, 2.5}, {dtype.Uint64, dtype.Int64}} {
		t, err := dtype.ResultType(operands...)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(t)
	}
	_, err := dtype.NewScalar(dtype.Int8, 300)
	fmt.Println(err)
	// Output:
	// float16
	// float32
	// int8
	// float64
	// float64
	// dtype.Scalar.Bytes: int64 300 as int8: value out of range
}

// NumPy's names of types, in either byte order; arrays have that of the host.
func ExampleParseDType() {
	for _, s := range []string{">M8[25us]", `[["id", ">i4"], ["at", ">f4", [3]]]`} {
		t, order, err := dtype.ParseDType(s)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%c %d bytes %s\n", order, t.Size(), t.NumPyIn('<'))
	}
	// Output:
	// > 8 bytes <M8[25us]
	// > 16 bytes [["id","<i4"],["at","<f4",[3]]]
}
