package store

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"
)

// forwarder calls the same operation of another store. Wrappers embed it and replace
// what they change.
type forwarder struct{ Store }

func (f forwarder) Size(ctx context.Context, key string) (int64, error) {
	return Size(ctx, f.Store, key)
}

func (f forwarder) ListDir(ctx context.Context, prefix string) (keys, prefixes []string, err error) {
	return ListDir(ctx, f.Store, prefix)
}

func (f forwarder) DeleteAll(ctx context.Context, prefix string) error {
	return DeleteAll(ctx, f.Store, prefix)
}

func (f forwarder) Create(ctx context.Context, key string) (Writer, error) {
	return Create(ctx, f.Store, key)
}

func (f forwarder) SetIfNotExists(ctx context.Context, key string, value []byte) error {
	return SetIfNotExists(ctx, f.Store, key, value)
}

func (f forwarder) Move(ctx context.Context, from, to string) error {
	return Move(ctx, f.Store, from, to)
}

func (f forwarder) GetRanges(ctx context.Context, key string, ranges []Range) ([][]byte, error) {
	return GetRanges(ctx, f.Store, key, ranges)
}

func (f forwarder) GetRangesVersion(ctx context.Context, key string, ranges []Range) ([][]byte, string, error) {
	return GetRangesVersion(ctx, f.Store, key, ranges)
}

func (f forwarder) takesRoundTrips() bool { return TakesRoundTrips(f.Store) }

func (f forwarder) Close() error { return Close(f.Store) }

// nilStore is what a wrapper of a nil store wraps: every operation is an error.
type nilStore struct{}

func (nilStore) Get(context.Context, string, Range) ([]byte, error) { return nil, errNil }
func (nilStore) Set(context.Context, string, []byte) error          { return errNil }
func (nilStore) Delete(context.Context, string) error               { return errNil }
func (nilStore) List(context.Context, string) ([]string, error)     { return nil, errNil }
func (nilStore) String() string                                     { return "nil store" }

func orNilStore(s Store) Store {
	if s == nil {
		return nilStore{}
	}
	return s
}

// ReadOnly returns a store with the same values whose writes return an error wrapping
// ErrReadOnly.
func ReadOnly(s Store) Store { return readOnly{forwarder{orNilStore(s)}} }

type readOnly struct{ forwarder }

func (r readOnly) rangeReader() RangeReader { return AsRangeReader(r.Store) }

func (r readOnly) String() string { return fmt.Sprintf("read-only %v", r.Store) }

func (r readOnly) refuse(ctx context.Context, method, key string) error {
	return fmt.Errorf("store.%s: key %q: %w", method, key, contextErr(ctx, ErrReadOnly))
}

func (r readOnly) Set(ctx context.Context, key string, _ []byte) error {
	return r.refuse(ctx, "Set", key)
}

func (r readOnly) SetIfNotExists(ctx context.Context, key string, _ []byte) error {
	return r.refuse(ctx, "SetIfNotExists", key)
}

func (r readOnly) Create(ctx context.Context, key string) (Writer, error) {
	return nil, r.refuse(ctx, "Create", key)
}

func (r readOnly) Delete(ctx context.Context, key string) error {
	return r.refuse(ctx, "Delete", key)
}

func (r readOnly) DeleteAll(ctx context.Context, prefix string) error {
	return r.refuse(ctx, "DeleteAll", prefix)
}

func (r readOnly) Move(ctx context.Context, from, _ string) error {
	return r.refuse(ctx, "Move", from)
}

// Under returns the store of the values under a prefix: its key "a" is the key
// "prefix/a" of s. It returns an error wrapping ErrInvalidKey if the prefix is malformed.
func Under(s Store, prefix string) (Store, error) {
	if s == nil {
		return nil, fmt.Errorf("store.Under: prefix %q: %w", prefix, errNil)
	}
	if err := CheckPrefix(prefix); err != nil {
		return nil, fmt.Errorf("store.Under: prefix %w", err)
	}
	if prefix == "" {
		return s, nil
	}
	return &prefixed{s, prefix}, nil
}

type prefixed struct {
	inner  Store
	prefix string
}

func (p *prefixed) rangeReader() RangeReader {
	if r := AsRangeReader(p.inner); r != nil {
		return prefixedReader{r, p}
	}
	return nil
}

type prefixedReader struct {
	RangeReader
	names *prefixed
}

func (p prefixedReader) ReadRange(ctx context.Context, key string, r Range, dst []byte) (Part, error) {
	return p.RangeReader.ReadRange(ctx, p.names.key(key), r, dst)
}

func (p *prefixed) String() string { return fmt.Sprintf("%v/%s", p.inner, p.prefix) }

// key returns the key in the inner store. It keeps an empty key invalid.
func (p *prefixed) key(key string) string { return p.prefix + "/" + key }

// path returns the prefix in the inner store.
func (p *prefixed) path(prefix string) string {
	if prefix == "" {
		return p.prefix
	}
	return p.prefix + "/" + prefix
}

func (p *prefixed) Get(ctx context.Context, key string, r Range) ([]byte, error) {
	return p.inner.Get(ctx, p.key(key), r)
}

func (p *prefixed) Set(ctx context.Context, key string, value []byte) error {
	return p.inner.Set(ctx, p.key(key), value)
}

func (p *prefixed) Delete(ctx context.Context, key string) error {
	return p.inner.Delete(ctx, p.key(key))
}

func (p *prefixed) List(ctx context.Context, prefix string) ([]string, error) {
	keys, err := p.inner.List(ctx, p.path(prefix))
	for i, key := range keys {
		keys[i] = strings.TrimPrefix(key, p.prefix+"/")
	}
	return keys, err
}

func (p *prefixed) Size(ctx context.Context, key string) (int64, error) {
	return Size(ctx, p.inner, p.key(key))
}

func (p *prefixed) ListDir(ctx context.Context, prefix string) (keys, prefixes []string, err error) {
	return ListDir(ctx, p.inner, p.path(prefix))
}

func (p *prefixed) DeleteAll(ctx context.Context, prefix string) error {
	return DeleteAll(ctx, p.inner, p.path(prefix))
}

func (p *prefixed) Create(ctx context.Context, key string) (Writer, error) {
	return Create(ctx, p.inner, p.key(key))
}

func (p *prefixed) SetIfNotExists(ctx context.Context, key string, value []byte) error {
	return SetIfNotExists(ctx, p.inner, p.key(key), value)
}

func (p *prefixed) Move(ctx context.Context, from, to string) error {
	return Move(ctx, p.inner, p.key(from), p.key(to))
}

func (p *prefixed) GetRanges(ctx context.Context, key string, ranges []Range) ([][]byte, error) {
	return GetRanges(ctx, p.inner, p.key(key), ranges)
}

func (p *prefixed) GetRangesVersion(ctx context.Context, key string, ranges []Range) ([][]byte, string, error) {
	return GetRangesVersion(ctx, p.inner, p.key(key), ranges)
}

func (p *prefixed) OpenValue(ctx context.Context, key string) (Value, error) {
	return OpenValue(ctx, p.inner, p.key(key))
}

func (p *prefixed) takesRoundTrips() bool { return TakesRoundTrips(p.inner) }

func (p *prefixed) Close() error { return Close(p.inner) }

// Logging is a store that logs and counts the operations on another one. Use
// [NewLogging].
type Logging struct {
	inner  Store
	logger *slog.Logger

	mu    sync.Mutex
	calls map[string]int64
}

// NewLogging returns a store that logs each operation on s at level debug with its key,
// the length of the value, its duration and its error. A nil logger only counts.
func NewLogging(s Store, logger *slog.Logger) *Logging {
	return &Logging{inner: orNilStore(s), logger: logger, calls: map[string]int64{}}
}

// Calls returns how often each operation was called, by its name, such as "Get".
func (l *Logging) Calls() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.calls)
}

func (l *Logging) takesRoundTrips() bool { return TakesRoundTrips(l.inner) }

// String names the store and the one that it logs.
func (l *Logging) String() string { return fmt.Sprintf("logged %v", l.inner) }

func (l *Logging) log(ctx context.Context, method, key string, do func() (n int, err error)) error {
	start := time.Now()
	n, err := do()
	l.mu.Lock()
	l.calls[method]++
	l.mu.Unlock()
	if l.logger != nil {
		l.logger.DebugContext(ctx, "zarr store", "operation", method, "key", key, "bytes", n, "duration", time.Since(start), "error", err)
	}
	return err
}

// Get implements [Store].
func (l *Logging) Get(ctx context.Context, key string, r Range) (value []byte, err error) {
	err = l.log(ctx, "Get", key, func() (int, error) { value, err = l.inner.Get(ctx, key, r); return len(value), err })
	return value, err
}

// Set implements [Store].
func (l *Logging) Set(ctx context.Context, key string, value []byte) error {
	return l.log(ctx, "Set", key, func() (int, error) { return len(value), l.inner.Set(ctx, key, value) })
}

// Delete implements [Store].
func (l *Logging) Delete(ctx context.Context, key string) error {
	return l.log(ctx, "Delete", key, func() (int, error) { return 0, l.inner.Delete(ctx, key) })
}

// List implements [Store].
func (l *Logging) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = l.log(ctx, "List", prefix, func() (int, error) { keys, err = l.inner.List(ctx, prefix); return 0, err })
	return keys, err
}

// Size implements [Sizer].
func (l *Logging) Size(ctx context.Context, key string) (n int64, err error) {
	err = l.log(ctx, "Size", key, func() (int, error) { n, err = Size(ctx, l.inner, key); return 0, err })
	return n, err
}

// ListDir implements [DirLister].
func (l *Logging) ListDir(ctx context.Context, prefix string) (keys, prefixes []string, err error) {
	err = l.log(ctx, "ListDir", prefix, func() (int, error) {
		keys, prefixes, err = ListDir(ctx, l.inner, prefix)
		return 0, err
	})
	return keys, prefixes, err
}

// DeleteAll implements [PrefixDeleter].
func (l *Logging) DeleteAll(ctx context.Context, prefix string) error {
	return l.log(ctx, "DeleteAll", prefix, func() (int, error) { return 0, DeleteAll(ctx, l.inner, prefix) })
}

// Create implements [Creator]. What is written to the Writer is not logged.
func (l *Logging) Create(ctx context.Context, key string) (w Writer, err error) {
	err = l.log(ctx, "Create", key, func() (int, error) { w, err = Create(ctx, l.inner, key); return 0, err })
	return w, err
}

// SetIfNotExists implements [ConditionalSetter].
func (l *Logging) SetIfNotExists(ctx context.Context, key string, value []byte) error {
	return l.log(ctx, "SetIfNotExists", key, func() (int, error) { return len(value), SetIfNotExists(ctx, l.inner, key, value) })
}

// Move implements [Mover].
func (l *Logging) Move(ctx context.Context, from, to string) error {
	return l.log(ctx, "Move", from, func() (int, error) { return 0, Move(ctx, l.inner, from, to) })
}

// GetRanges implements [RangesGetter].
func (l *Logging) GetRanges(ctx context.Context, key string, ranges []Range) (values [][]byte, err error) {
	values, _, err = l.GetRangesVersion(ctx, key, ranges)
	return values, err
}

// GetRangesVersion implements [VersionsGetter]. It is logged as GetRanges.
func (l *Logging) GetRangesVersion(ctx context.Context, key string, ranges []Range) (values [][]byte, version string, err error) {
	err = l.log(ctx, "GetRanges", key, func() (int, error) {
		values, version, err = GetRangesVersion(ctx, l.inner, key, ranges)
		n := 0
		for _, value := range values {
			n += len(value)
		}
		return n, err
	})
	return values, version, err
}

// Close closes the logged store.
func (l *Logging) Close() error { return Close(l.inner) }
