package store_test

import (
	"context"
	"fmt"

	"github.com/quiver-gpu/quiver/zarr/store"
)

func Example() {
	ctx, s := context.Background(), store.NewMemory()
	w, err := store.Create(ctx, s, "temp/c/0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprint(w, "a value that is ")
	fmt.Fprint(w, "written in parts")
	if err := w.Commit(); err != nil {
		fmt.Println(err)
		return
	}
	tail, _ := s.Get(ctx, "temp/c/0", store.Last(5))
	fmt.Printf("%s\n", tail)
	keys, _ := s.List(ctx, "temp")
	fmt.Println(keys)
	// Output:
	// parts
	// [temp/c/0]
}
