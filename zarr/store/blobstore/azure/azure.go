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

	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/blobstore"
	_ "gocloud.dev/blob/azureblob" // opens azblob URLs
)

func init() {
	open := func(ctx context.Context, u *url.URL) (store.Store, error) {
		azblob := *u
		azblob.Scheme = "azblob" // the scheme that gocloud.dev knows
		// Azure has no ranges that count from the end, and gocloud.dev's Upload writes one
		// blob, so no request of its own is better.
		return blobstore.Open(ctx, &azblob, nil)
	}
	store.Register("azblob", open)
	store.Register("az", open)
}
