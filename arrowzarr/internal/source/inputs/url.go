package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// isURL reports whether an input is a URL.
func isURL(input string) bool { return strings.Contains(input, "://") }

// WithoutSecrets returns a URL without user, password and query, and any other input as
// it is.
func WithoutSecrets(input string) string {
	scheme, rest, ok := strings.Cut(input, "://")
	if !ok {
		return input
	}
	rest, _, _ = strings.Cut(rest, "?")
	host, file, hasFile := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host = host[at+1:]
	}
	if hasFile {
		host += "/" + file
	}
	return scheme + "://" + host
}

// storeTree is a store of objects. Paths are keys.
type storeTree struct {
	store store.Store
	root  string // as errors name it
}

func (t *storeTree) name(key string) string {
	if key == "" {
		return t.root
	}
	return t.root + "/" + key
}

func (t *storeTree) list(ctx context.Context, folder string) (files, folders []string, err error) {
	files, folders, err = store.ListDir(ctx, t.store, folder)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return files, folders, err
}

func (t *storeTree) open(ctx context.Context, key string) (*source.File, error) {
	value, err := store.OpenValue(ctx, t.store, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%s does not exist: %w", t.name(key), fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	return source.NewRemoteFile(t.name(key), value.Size(), value.Version(), &objectReader{ctx: ctx, value: value}), nil
}

func (t *storeTree) close() error { return store.Close(t.store) }

// findURL returns the files of a URL: of an object, or, in stores that can list, of a
// prefix or a pattern.
func findURL(ctx context.Context, input string) (found []foundFile, err error) {
	scheme, rest, _ := strings.Cut(input, "://")
	if scheme == "file" {
		local, err := url.PathUnescape(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", input, err)
		}
		return findLocal(ctx, local)
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	segments := strings.Split(strings.TrimRight(rest, "/"), "/")
	folder := 1 // the first segment is the host
	isHTTP := scheme == "http" || scheme == "https"
	for folder < len(segments)-1 && (isHTTP || !hasMeta(segments[folder])) {
		folder++
	}
	location := scheme + "://" + strings.Join(segments[:folder], "/")
	tree := &storeTree{root: WithoutSecrets(location)}
	if hasQuery {
		location += "?" + query
	}
	if tree.store, err = store.Open(ctx, location); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tree.close())
		}
	}()
	f := &finder{ctx: ctx, tree: tree}
	last := ""
	if folder < len(segments) {
		if last, err = url.PathUnescape(strings.Join(segments[folder:], "/")); err != nil {
			return nil, fmt.Errorf("%s: %w", WithoutSecrets(input), err)
		}
	}
	switch {
	case last == "" && isHTTP:
		return nil, fmt.Errorf("%s: expected the URL of a file", WithoutSecrets(input))
	case last == "":
		err = f.addFolder("", nil, 0)
	case isHTTP:
		return []foundFile{{tree, last, nil}}, nil
	case hasMeta(last):
		err = f.addMatches("", strings.Split(last, "/"), nil, false, 0)
	default:
		var exists bool
		if exists, err = store.Exists(ctx, tree.store, last); exists {
			return []foundFile{{tree, last, nil}}, nil
		}
		if err == nil {
			err = f.addFolder(last, nil, 0)
		}
	}
	if err == nil && len(f.found) == 0 {
		err = fmt.Errorf("%s does not exist: expected an object, or a folder of some", WithoutSecrets(input))
	}
	return f.found, err
}

// objectReader reads a value of a store by ranges. Requests take long, so it reads more
// than is asked for: more and more where reads follow one another.
type objectReader struct {
	ctx   context.Context
	value store.Value

	mu       sync.Mutex
	segments []segment // most recently used last
}

// segment is a part of a value that has been read.
type segment struct {
	start int64
	bytes []byte
}

func (s segment) end() int64 { return s.start + int64(len(s.bytes)) }

const (
	// minSegment is the least that a request reads, unless the value ends.
	minSegment = 64 << 10
	// maxSegment is the most that is read in advance.
	maxSegment = 8 << 20
	// maxSegments limits the memory for segments.
	maxSegments = 16
	// pieceBytes is what one of several concurrent requests reads.
	pieceBytes = 2 << 20
)

// ReadAt implements io.ReaderAt.
func (r *objectReader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	size := r.value.Size()
	for n < len(p) {
		at := off + int64(n)
		if at >= size {
			return n, io.EOF
		}
		cached, ahead := r.find(at)
		if len(cached) > 0 {
			n += copy(p[n:], cached)
			continue
		}
		missing := min(int64(len(p)-n), size-at)
		if missing >= max(ahead, minSegment) {
			if err := r.fetch(p[n:n+int(missing)], at); err != nil {
				return n, err
			}
			n += int(missing)
			continue
		}
		start := at
		if size-at < minSegment { // the end of a file, such as a footer
			start = max(size-minSegment, 0)
		}
		s := segment{start, make([]byte, min(max(ahead, minSegment, at-start+missing), size-start))}
		if err := r.fetch(s.bytes, start); err != nil {
			return n, err
		}
		r.keep(s)
		n += copy(p[n:], s.bytes[at-start:])
	}
	return n, nil
}

// find returns what segments have from a position on. Otherwise, it returns how much to
// read there: twice a segment that ends there.
func (r *objectReader) find(at int64) (cached []byte, ahead int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range r.segments {
		if at >= s.start && at < s.end() {
			r.segments = append(append(r.segments[:i:i], r.segments[i+1:]...), s)
			return s.bytes[at-s.start:], 0
		}
		if at == s.end() {
			ahead = max(ahead, min(2*int64(len(s.bytes)), maxSegment))
		}
	}
	return nil, ahead
}

// keep adds a segment, and drops the one before it and old ones.
func (r *objectReader) keep(s segment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.segments[:0]
	var bytes int
	for _, old := range r.segments {
		if old.end() != s.start {
			kept = append(kept, old)
			bytes += len(old.bytes)
		}
	}
	for len(kept) > 0 && (len(kept) >= maxSegments || bytes+len(s.bytes) > 2*maxSegment) {
		bytes -= len(kept[0].bytes)
		kept = kept[1:]
	}
	r.segments = append(append([]segment{}, kept...), s)
}

// fetch reads bytes of the value, in several requests at once if they are many.
func (r *objectReader) fetch(p []byte, at int64) error {
	group, ctx := errgroup.WithContext(r.ctx)
	group.SetLimit(source.RemoteRequests)
	for len(p) > 0 {
		piece, from := p[:min(len(p), pieceBytes)], at
		p, at = p[len(piece):], at+int64(len(piece))
		group.Go(func() error {
			got, err := r.value.Read(ctx, store.Between(from, from+int64(len(piece))))
			if err == nil && len(got) != len(piece) {
				err = fmt.Errorf("%d bytes from %d on, expected %d: %w", len(got), from, len(piece), io.ErrUnexpectedEOF)
			}
			copy(piece, got)
			return err
		})
	}
	return group.Wait()
}

// closeTrees closes the stores of files.
func closeTrees(files []foundFile) error {
	closed := map[fileTree]bool{}
	var err error
	for _, f := range files {
		if t, ok := f.tree.(interface{ close() error }); ok && !closed[f.tree] {
			closed[f.tree] = true
			err = errors.Join(err, t.close())
		}
	}
	return err
}
