package blobstore_test

import (
	"context"
	"fmt"

	"gocloud.dev/blob/memblob"

	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/blobstore"
)

// Any bucket of gocloud.dev/blob is a store. For S3, Google Cloud Storage and Azure, import
// the package of the kind and call store.Open with a URL.
func ExampleNew() {
	s, err := blobstore.New(memblob.OpenBucket(nil), "mem://", blobstore.Native{})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	ctx := context.Background()
	if err := s.Set(ctx, "table.zarr/c/0", []byte("a chunk")); err != nil {
		panic(err)
	}
	value, err := s.Get(ctx, "table.zarr/c/0", store.Last(5))
	fmt.Printf("%s %v\n", value, err)
	// Output: chunk <nil>
}
