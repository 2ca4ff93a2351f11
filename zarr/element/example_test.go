package element_test

import (
	"encoding/json"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
)

func Example() {
	times := element.Of(ndview.Datetime64(ndview.Microsecond, 1))
	name, _ := json.Marshal(times)
	fill, _ := times.FormatFill(times.DefaultFill())
	fmt.Println(string(name), string(fill))

	// Wraps an Arrow string column without a copy.
	words, err := element.NewVLen([]int32{0, 3, 3, 8}, []byte("onethree"), 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n", words.Elements())
	// Output:
	// {"name":"numpy.datetime64","configuration":{"unit":"us","scale_factor":1}} "NaT"
	// ["one" "" "three"]
}

func ExampleType_FromNumbers() {
	numbers, err := ndview.FromHost(arrowbuf.CPU(), ndview.Float32, []float32{0.1, 448, -2.5}, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer numbers.Release()
	bits, err := element.Float8E4M3FN.FromNumbers(numbers) // as an array of this type is written
	if err != nil {
		fmt.Println(err)
		return
	}
	defer bits.Release()
	rounded, err := element.Float8E4M3FN.ToNumbers(bits)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rounded.Release()
	stored, err := ndview.ToHost[uint8](bits)
	if err != nil {
		fmt.Println(err)
		return
	}
	back, err := ndview.ToHost[float32](rounded)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%#x %v\n", stored, back)
	// Output:
	// 0x1d7ec2 [0.1015625 448 -2.5]
}
