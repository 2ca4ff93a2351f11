package main

// The object stores in which outputs can be written, by the scheme of their URLs.
import (
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/azure"
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/gcs"
	_ "github.com/quiver-gpu/quiver/zarr/store/blobstore/s3"
)
