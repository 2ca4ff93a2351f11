package element_test

import (
	"encoding/json"
	"fmt"

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
