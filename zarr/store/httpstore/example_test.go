package httpstore_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing/fstest"

	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/httpstore"
)

// Any server of files serves Zarr. A range is one request with a Range header.
func ExampleNew() {
	files := fstest.MapFS{"table.zarr/c/0": {Data: []byte("a chunk, and its checksum")}}
	server := httptest.NewServer(http.FileServerFS(files))
	defer server.Close()

	s, err := httpstore.New(server.URL+"/table.zarr", httpstore.Options{})
	if err != nil {
		panic(err)
	}
	value, err := s.Get(context.Background(), "c/0", store.Last(8))
	fmt.Printf("%s %v\n", value, err)
	// Output: checksum <nil>
}
