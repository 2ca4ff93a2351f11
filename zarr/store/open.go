package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Opener opens the store of a URL. The URL has the scheme under which the Opener was
// registered.
type Opener func(ctx context.Context, u *url.URL) (Store, error)

var (
	openersMu sync.RWMutex
	openers   = map[string]Opener{}
)

// Register makes [Open] open URLs of a scheme, such as "s3". Packages of stores call it
// from an init function, so that a program links only the stores that it imports. It
// panics if the scheme is empty or registered, or if open is nil.
func Register(scheme string, open Opener) {
	openersMu.Lock()
	defer openersMu.Unlock()
	if scheme == "" || open == nil {
		panic("store.Register: empty scheme or nil Opener")
	}
	if _, ok := openers[scheme]; ok {
		panic("store.Register: scheme " + scheme + " is registered already")
	}
	openers[scheme] = open
}

// imports names the package that registers a scheme.
var imports = map[string]string{
	"s3": "blobstore/s3", "gs": "blobstore/gcs",
	"azblob": "blobstore/azure", "az": "blobstore/azure",
	"http": "httpstore", "https": "httpstore",
}

// Open opens the store of a URL. The caller closes it with [Close].
//
//   - a path, or file:///path: a [Local] directory, or the [Zip] file if it ends in .zip
//   - memory://name: a [Memory], the same one for each Open of the name in this process;
//     memory:// is a new one
//   - other schemes: what is registered, see [Register]. Packages
//     blobstore/{s3,gcs,azure} register s3, gs, azblob and az; package httpstore
//     registers http and https.
//
// A ZIP file is opened for reading; use [OpenZip] to write one. Open returns an error
// wrapping errors.ErrUnsupported that names the package to import if the scheme is not
// registered. Errors show no user, password or query of a URL.
func Open(ctx context.Context, location string) (Store, error) {
	s, err := open(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("store.Open: %q: %w", redact(location), contextErr(ctx, err))
	}
	return s, nil
}

func open(ctx context.Context, location string) (Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	scheme, rest, hasScheme := strings.Cut(location, "://")
	switch {
	case location == "":
		return nil, errors.New("empty path or URL")
	case !hasScheme:
		return openPath(location)
	case scheme == "file":
		if !strings.HasPrefix(rest, "/") {
			return nil, errors.New("want an absolute path: file:///path")
		}
		path, err := url.PathUnescape(rest)
		if err != nil {
			return nil, err
		}
		return openPath(path)
	case scheme == "zip":
		return OpenZip(rest, ZipRead)
	case scheme == "memory":
		return openMemory(rest), nil
	}
	openersMu.RLock()
	opener := openers[scheme]
	known := slices.Sorted(maps.Keys(openers))
	openersMu.RUnlock()
	if opener == nil {
		if name := imports[scheme]; name != "" {
			return nil, fmt.Errorf("scheme %q: import github.com/quiver-gpu/quiver/zarr/store/%s: %w", scheme, name, errors.ErrUnsupported)
		}
		return nil, fmt.Errorf("scheme %q: want file, zip, memory or one of %v: %w", scheme, known, errors.ErrUnsupported)
	}
	u, err := url.Parse(location)
	if err != nil {
		var malformed *url.Error
		if errors.As(err, &malformed) {
			err = malformed.Err // without the URL
		}
		return nil, err
	}
	return opener(ctx, u)
}

// redact removes what may be secret from a URL: user, password and query. Paths may have
// any character and stay as they are, which includes those of files.
func redact(location string) string {
	scheme, rest, hasScheme := strings.Cut(location, "://")
	if !hasScheme || scheme == "file" || scheme == "zip" {
		return location
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	host, path, hasPath := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host = host[at+1:]
	}
	if hasPath {
		host += "/" + path
	}
	return scheme + "://" + host
}

func openPath(path string) (Store, error) {
	if strings.HasSuffix(path, ".zip") {
		return OpenZip(path, ZipRead)
	}
	return NewLocal(path), nil
}

var (
	memoriesMu sync.Mutex
	memories   = map[string]*Memory{}
)

// openMemory returns the memory store of a name.
func openMemory(name string) *Memory {
	if name == "" {
		return NewMemory()
	}
	memoriesMu.Lock()
	defer memoriesMu.Unlock()
	if memories[name] == nil {
		memories[name] = NewMemory()
	}
	return memories[name]
}
