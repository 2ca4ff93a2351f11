package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// The optional interfaces of a store. Callers use the function of the same purpose.
type (
	// Sizer is a store that knows the length of a value without reading it.
	Sizer interface {
		Size(ctx context.Context, key string) (int64, error)
	}
	// DirLister is a store that lists one level without listing what is below it.
	DirLister interface {
		ListDir(ctx context.Context, prefix string) (keys, prefixes []string, err error)
	}
	// PrefixDeleter is a store that deletes a prefix faster than key by key.
	PrefixDeleter interface {
		DeleteAll(ctx context.Context, prefix string) error
	}
	// Creator is a store that writes a value in parts. A store that changes what Set of an
	// embedded one does must change Create, too: chunks and shards are written by either.
	Creator interface {
		Create(ctx context.Context, key string) (Writer, error)
	}
	// ConditionalSetter is a store that can refuse to replace a value, atomically.
	ConditionalSetter interface {
		SetIfNotExists(ctx context.Context, key string, value []byte) error
	}
	// Mover is a store that renames a prefix atomically.
	Mover interface {
		Move(ctx context.Context, from, to string) error
	}
	// RangesGetter is a store that reads several ranges of one value faster than one
	// by one.
	RangesGetter interface {
		GetRanges(ctx context.Context, key string, ranges []Range) ([][]byte, error)
	}
	// VersionsGetter is a store that reads several ranges of one value, and says of which
	// version they are. A store that changes what Get or GetRanges of an embedded one does must
	// change this, too.
	VersionsGetter interface {
		// GetRangesVersion is [GetRangesVersion] of the store.
		GetRangesVersion(ctx context.Context, key string, ranges []Range) (values [][]byte, version string, err error)
	}
	// ValueOpener is a store that tells the versions of a value apart.
	ValueOpener interface {
		OpenValue(ctx context.Context, key string) (Value, error)
	}
	// RangeReader is a store in which a read takes no round trip, so that many small
	// reads are as good as one. It reads into memory of the caller.
	RangeReader interface {
		// ReadRange is Get into dst[:0] if that has the capacity, otherwise into memory
		// that the caller owns from then on.
		ReadRange(ctx context.Context, key string, r Range, dst []byte) (Part, error)
	}
)

// Value is one version of a value, which is read in parts. It is safe for concurrent use.
type Value interface {
	// Size is the length in bytes.
	Size() int64
	// Version differs if the value does, such as an ETag. It is empty if the store
	// cannot say.
	Version() string
	// Read returns a range. The error wraps ErrChanged if the store has another version
	// by now and can say so.
	Read(ctx context.Context, r Range) ([]byte, error)
}

// OpenValue returns the present version of a value. It returns an error wrapping
// ErrNotFound if no value has the key. In a store that is no [ValueOpener], only another
// length is noticed.
func OpenValue(ctx context.Context, s Store, key string) (Value, error) {
	if opener, ok := s.(ValueOpener); ok {
		return opener.OpenValue(ctx, key)
	}
	size, err := Size(ctx, s, key)
	if err != nil {
		return nil, err
	}
	return &unversioned{s, key, size}, nil
}

// unversioned is a value of a store that cannot tell versions apart.
type unversioned struct {
	store Store
	key   string
	size  int64
}

func (v *unversioned) Size() int64     { return v.size }
func (v *unversioned) Version() string { return "" }

func (v *unversioned) Read(ctx context.Context, r Range) ([]byte, error) {
	start, end, err := r.Resolve(v.size)
	if err != nil {
		return nil, fmt.Errorf("store.Value: key %q: %w", v.key, err)
	}
	value, err := v.store.Get(ctx, v.key, Between(start, end))
	if err == nil && int64(len(value)) != end-start {
		err = fmt.Errorf("store.Value: key %q: %d bytes of range [%d, %d): %w", v.key, len(value), start, end, ErrChanged)
	}
	return value, err
}

// Part is a range of a value, read by a [RangeReader].
type Part struct {
	Data []byte
	Size int64 // of the whole value
	// Version identifies the value: two reads of a key with one version saw the same
	// value. It is empty if the store cannot say.
	Version string
}

// AsRangeReader returns the store, or the store that it wraps, as a [RangeReader]. It
// returns nil if reads take round trips or must pass through the wrapper.
func AsRangeReader(s Store) RangeReader {
	switch s := s.(type) {
	case RangeReader:
		return s
	case interface{ rangeReader() RangeReader }:
		return s.rangeReader()
	}
	return nil
}

// TakesRoundTrips reports whether each read of a store takes a round trip, so that many should
// be made at once. It is false for the stores of this package that are in memory or files, for
// their wrappers, and for any [RangeReader].
func TakesRoundTrips(s Store) bool {
	switch s := s.(type) {
	case RangeReader:
		return false
	case interface{ takesRoundTrips() bool }:
		return s.takesRoundTrips()
	}
	return s != nil
}

var errNil = errors.New("nil store")

// Size returns the length of a value in bytes. It returns an error wrapping ErrNotFound
// if no value has the key. A store that is no [Sizer] reads the value.
func Size(ctx context.Context, s Store, key string) (int64, error) {
	if s == nil {
		return 0, fmt.Errorf("store.Size: key %q: %w", key, errNil)
	}
	if sizer, ok := s.(Sizer); ok {
		return sizer.Size(ctx, key)
	}
	value, err := s.Get(ctx, key, Range{})
	return int64(len(value)), err
}

// Exists reports whether a value has the key.
func Exists(ctx context.Context, s Store, key string) (bool, error) {
	_, err := Size(ctx, s, key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// ListDir returns the names directly under a prefix, sorted: keys of values, and
// prefixes with at least one value under them.
func ListDir(ctx context.Context, s Store, prefix string) (keys, prefixes []string, err error) {
	if s == nil {
		return nil, nil, fmt.Errorf("store.ListDir: prefix %q: %w", prefix, errNil)
	}
	if lister, ok := s.(DirLister); ok {
		return lister.ListDir(ctx, prefix)
	}
	all, err := s.List(ctx, prefix)
	keys, prefixes = firstLevel(all, prefix)
	return keys, prefixes, err
}

// firstLevel splits keys under a prefix into the names of values and of prefixes.
func firstLevel(all []string, prefix string) (keys, prefixes []string) {
	for _, key := range all {
		if prefix != "" {
			key = key[len(prefix)+1:]
		}
		if first, _, deeper := strings.Cut(key, "/"); deeper {
			prefixes = append(prefixes, first)
		} else {
			keys = append(keys, first)
		}
	}
	slices.Sort(keys)
	slices.Sort(prefixes)
	return keys, slices.Compact(prefixes)
}

// IsEmpty reports whether no value is under a prefix.
func IsEmpty(ctx context.Context, s Store, prefix string) (bool, error) {
	keys, prefixes, err := ListDir(ctx, s, prefix)
	return len(keys)+len(prefixes) == 0, err
}

// TotalSize returns the length of all values under a prefix in bytes.
func TotalSize(ctx context.Context, s Store, prefix string) (int64, error) {
	if s == nil {
		return 0, fmt.Errorf("store.TotalSize: prefix %q: %w", prefix, errNil)
	}
	keys, err := s.List(ctx, prefix)
	if err != nil {
		return 0, err
	}
	sizes := make([]int64, len(keys))
	err = forEach(ctx, keys, func(ctx context.Context, i int, key string) (err error) {
		sizes[i], err = Size(ctx, s, key)
		return err
	})
	total := int64(0)
	for _, n := range sizes {
		total += n
	}
	return total, err
}

// DeleteAll deletes all values under a prefix, and the value whose key equals it. It
// returns nil if no value matches.
func DeleteAll(ctx context.Context, s Store, prefix string) error {
	if s == nil {
		return fmt.Errorf("store.DeleteAll: prefix %q: %w", prefix, errNil)
	}
	if deleter, ok := s.(PrefixDeleter); ok {
		return deleter.DeleteAll(ctx, prefix)
	}
	keys, err := s.List(ctx, prefix)
	if err != nil {
		return err
	}
	if prefix != "" {
		keys = append(keys, prefix)
	}
	return forEach(ctx, keys, func(ctx context.Context, _ int, key string) error { return s.Delete(ctx, key) })
}

// requests is the number of requests of one call that run at once.
const requests = 16

func forEach(ctx context.Context, keys []string, do func(ctx context.Context, i int, key string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	for i, key := range keys {
		group.Go(func() error { return contextErr(ctx, do(ctx, i, key)) })
	}
	return group.Wait()
}

// SetIfNotExists stores a value unless the key has one. Of concurrent calls one
// succeeds; the others return an error wrapping ErrExists. It returns an error wrapping
// errors.ErrUnsupported if the store is no [ConditionalSetter].
func SetIfNotExists(ctx context.Context, s Store, key string, value []byte) error {
	if setter, ok := s.(ConditionalSetter); ok {
		return setter.SetIfNotExists(ctx, key, value)
	}
	return fmt.Errorf("store.SetIfNotExists: key %q: %T: %w", key, s, errors.ErrUnsupported)
}

// Move renames a prefix atomically. It returns an error wrapping ErrNotFound if no value
// is under from, ErrExists if a value is at or under to, and errors.ErrUnsupported if
// the store is no [Mover], such as an object store.
func Move(ctx context.Context, s Store, from, to string) error {
	if mover, ok := s.(Mover); ok {
		return mover.Move(ctx, from, to)
	}
	return fmt.Errorf("store.Move: %q to %q: %T: %w", from, to, s, errors.ErrUnsupported)
}

// Create returns a Writer that stores a value when it is committed. If the store is no
// [Creator], the Writer keeps the value in memory until then.
func Create(ctx context.Context, s Store, key string) (Writer, error) {
	if s == nil {
		return nil, fmt.Errorf("store.Create: key %q: %w", key, errNil)
	}
	if creator, ok := s.(Creator); ok {
		return creator.Create(ctx, key)
	}
	if err := contextErr(ctx, CheckKey(key)); err != nil {
		return nil, fmt.Errorf("store.Create: key %q: %w", key, err)
	}
	return &bufferedWriter{key: key, set: func(value []byte) error { return s.Set(ctx, key, value) }}, nil
}

// bufferedWriter keeps a value in memory until Commit.
type bufferedWriter struct {
	key   string
	set   func(value []byte) error
	value []byte
	done  bool
}

func (w *bufferedWriter) Write(p []byte) (int, error) {
	if w.done {
		return 0, fmt.Errorf("store.Writer.Write: key %q: %w", w.key, errWriterClosed)
	}
	w.value = append(w.value, p...)
	return len(p), nil
}

func (w *bufferedWriter) WriteAt(p []byte, off int64) (int, error) {
	if w.done {
		return 0, fmt.Errorf("store.Writer.Write: key %q: %w", w.key, errWriterClosed)
	}
	if err := checkOverwrite(off, len(p), int64(len(w.value))); err != nil {
		return 0, fmt.Errorf("store.Writer.Write: key %q: %w", w.key, err)
	}
	return copy(w.value[off:], p), nil
}

func (w *bufferedWriter) Commit() error {
	if w.done {
		return fmt.Errorf("store.Writer.Commit: key %q: %w", w.key, errWriterClosed)
	}
	w.done = true
	return w.set(w.value)
}

func (w *bufferedWriter) Abort() error {
	w.done, w.value = true, nil
	return nil
}

// Copy copies all values under a prefix to the same keys of another store.
func Copy(ctx context.Context, to, from Store, prefix string) error {
	if to == nil || from == nil {
		return fmt.Errorf("store.Copy: prefix %q: %w", prefix, errNil)
	}
	keys, err := from.List(ctx, prefix)
	if err != nil {
		return err
	}
	return forEach(ctx, keys, func(ctx context.Context, _ int, key string) error {
		value, err := from.Get(ctx, key, Range{})
		if err != nil {
			return err
		}
		return to.Set(ctx, key, value)
	})
}

// Close releases what a store holds, such as an open file. Stores that hold nothing
// need no Close. Close of nil does nothing.
func Close(s Store) error {
	if closer, ok := s.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// Two ranges of one value are read by one request if at most maxGap bytes are between
// them and the request reads at most maxRequest bytes. A request to an object store takes
// about as long as the transfer of a MiB.
const (
	maxGap     = 1 << 20
	maxRequest = 16 << 20
)

// GetRanges returns several ranges of one value, in the order of ranges. A store that is
// no [RangesGetter] gets nearby ranges in one request and makes requests concurrently.
// The ranges may overlap. It returns an error wrapping ErrNotFound if no value has the
// key.
func GetRanges(ctx context.Context, s Store, key string, ranges []Range) ([][]byte, error) {
	if s == nil {
		return nil, fmt.Errorf("store.GetRanges: key %q: %w", key, errNil)
	}
	if getter, ok := s.(RangesGetter); ok {
		return getter.GetRanges(ctx, key, ranges)
	}
	values := make([][]byte, len(ranges))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	for _, request := range coalesce(ranges) {
		group.Go(func() error {
			value, err := s.Get(ctx, key, request.covers)
			if err != nil {
				return err
			}
			return request.distribute(values, ranges, key, value)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return values, nil
}

// GetRangesVersion is [GetRanges], and returns the version that all ranges are of: it differs
// if the value does, such as an ETag. It is empty if the store is no [VersionsGetter] or cannot
// say.
func GetRangesVersion(ctx context.Context, s Store, key string, ranges []Range) (values [][]byte, version string, err error) {
	if getter, ok := s.(VersionsGetter); ok {
		return getter.GetRangesVersion(ctx, key, ranges)
	}
	values, err = GetRanges(ctx, s, key, ranges)
	return values, "", err
}

// request is one request for several ranges.
type request struct {
	covers  Range
	indices []int // of the ranges
}

// coalesce joins ranges with two bounds that are near one another.
func coalesce(ranges []Range) []request {
	order := make([]int, len(ranges))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return int(min(max(ranges[a].start-ranges[b].start, -1), 1))
	})
	var out []request
	joined := -1 // the request that the next range may join
	for _, i := range order {
		r := ranges[i]
		if r.kind != between || r.start < 0 || r.end < r.start {
			out = append(out, request{r, []int{i}})
			continue
		}
		if joined >= 0 {
			last := &out[joined]
			end := max(last.covers.end, r.end)
			if r.start-last.covers.end <= maxGap && end-last.covers.start <= maxRequest {
				last.covers.end = end
				last.indices = append(last.indices, i)
				continue
			}
		}
		joined = len(out)
		out = append(out, request{r, []int{i}})
	}
	return out
}

// distribute sets the values of the request's ranges to parts of its response.
func (q request) distribute(values [][]byte, ranges []Range, key string, response []byte) error {
	if len(q.indices) == 1 {
		values[q.indices[0]] = response
		return nil
	}
	for _, i := range q.indices {
		r := ranges[i]
		start, end, err := Between(r.start-q.covers.start, r.end-q.covers.start).Resolve(int64(len(response)))
		if err != nil {
			return fmt.Errorf("store.GetRanges: key %q: %w", key, err)
		}
		values[i] = response[start:end:end]
	}
	return nil
}
