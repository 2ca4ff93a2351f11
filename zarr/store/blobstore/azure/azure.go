// Package azure opens Zarr stores in Azure Blob Storage. Import it for its side effect:
// store.Open then takes URLs such as
//
//	azblob://container/prefix
//	az://container/prefix
//
// The query is that of gocloud.dev/blob/azureblob; the account and its credentials come
// from the environment (AZURE_STORAGE_ACCOUNT and others).
package azure

import (
	"context"
	"net/url"

	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/blobstore"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // opens azblob URLs
)

func init() {
	open := func(ctx context.Context, u *url.URL) (store.Store, error) {
		known := *u
		known.Scheme = "azblob" // the scheme that gocloud.dev knows
		// Azure has no ranges that count from the end, and gocloud.dev's Upload writes one
		// blob, so no other request is better.
		return blobstore.Open(ctx, &known, func(*blob.Bucket) (blobstore.Native, error) {
			return blobstore.Native{Version: version}, nil
		})
	}
	store.Register("azblob", open)
	store.Register("az", open)
}

// version returns the ETag of the blob that is read.
func version(as func(any) bool) string {
	var out azblob.DownloadStreamResponse
	if !as(&out) || out.ETag == nil {
		return ""
	}
	return string(*out.ETag)
}
