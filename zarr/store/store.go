package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrNotFound: there is no value under a key, or none under a prefix.
	ErrNotFound = errors.New("not found")
	// ErrExists: the place to move to is taken.
	ErrExists = errors.New("already exists")
	// ErrKey: a key or a prefix is malformed.
	ErrKey = errors.New("malformed key")
	// ErrRange: a range has a negative bound, or ends before it starts.
	ErrRange = errors.New("malformed range")
)

// Store keeps values under keys. It may be used from any goroutine; writes to
// one key are the caller's to order. Every method returns early with the
// context's error when that is done before the work begins.
type Store interface {
	// Get returns a value or a range of it, which the caller must not write
	// to. A missing key is ErrNotFound.
	Get(ctx context.Context, key string, r Range) ([]byte, error)
	// Set stores a value in place of any other. It does not keep value.
	Set(ctx context.Context, key string, value []byte) error
	// Create begins a value that is written as a stream.
	Create(ctx context.Context, key string) (Writer, error)
	// Delete removes a value. That there is none is not an error.
	Delete(ctx context.Context, key string) error
	// DeleteAll removes everything under a prefix, and the value whose key
	// the prefix is. That there is nothing is not an error.
	DeleteAll(ctx context.Context, prefix string) error
	// List returns all keys under a prefix, sorted.
	List(ctx context.Context, prefix string) ([]string, error)
	// ListDir returns the names directly under a prefix, sorted: of values,
	// and of prefixes that have something under them.
	ListDir(ctx context.Context, prefix string) (keys, prefixes []string, err error)
	// Move gives everything under one prefix another one, at once. Nothing
	// to move is ErrNotFound, something under the other prefix ErrExists.
	Move(ctx context.Context, from, to string) error
	// Size is the length of a value. A missing key is ErrNotFound.
	Size(ctx context.Context, key string) (int64, error)
}

// Writer is a value that is being written. Nothing is to be seen under its key
// before Commit. It is for one goroutine at a time.
type Writer interface {
	// Write appends.
	io.Writer
	// WriteAt writes over bytes that Write has written.
	io.WriterAt
	// Commit makes the value appear, and ends the writing either way.
	Commit() error
	// Abort forgets what was written. After Commit it does nothing.
	Abort() error
}

// Range is a part of a value. The zero value is all of it.
type Range struct {
	kind       rangeKind
	start, end int64
}

type rangeKind uint8

const (
	all rangeKind = iota
	between
	from
	last
)

// Between is bytes start, ..., end-1, or as many of them as there are.
func Between(start, end int64) Range { return Range{between, start, end} }

// From is all bytes from an offset on.
func From(start int64) Range { return Range{kind: from, start: start} }

// Last is the last n bytes, or all of a shorter value.
func Last(n int64) Range { return Range{kind: last, end: n} }

// Resolve gives the bounds of the range in a value of the given size. Stores
// use it to answer alike: 0 <= start <= end <= size.
func (r Range) Resolve(size int64) (start, end int64, err error) {
	if r.start < 0 || r.end < 0 || r.kind == between && r.end < r.start {
		return 0, 0, fmt.Errorf("%s: %w", r, ErrRange)
	}
	switch r.kind {
	case between:
		return min(r.start, size), min(r.end, size), nil
	case from:
		return min(r.start, size), size, nil
	case last:
		return max(size-r.end, 0), size, nil
	default:
		return 0, size, nil
	}
}

// String describes the range.
func (r Range) String() string {
	switch r.kind {
	case between:
		return fmt.Sprintf("bytes [%d, %d)", r.start, r.end)
	case from:
		return fmt.Sprintf("bytes from %d", r.start)
	case last:
		return fmt.Sprintf("last %d bytes", r.end)
	default:
		return "all bytes"
	}
}

// CheckKey answers an error that is ErrKey unless key is segments joined by
// slashes, none of them empty, "." or "..", and none with a NUL.
func CheckKey(key string) error {
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsRune(segment, 0) {
			return fmt.Errorf("%q: %w", key, ErrKey)
		}
	}
	return nil
}

// CheckPrefix is CheckKey for prefixes, which may be empty.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return CheckKey(prefix)
}

// under tells whether a key lies under a prefix.
func under(key, prefix string) bool {
	return prefix == "" || len(key) > len(prefix) && key[len(prefix)] == '/' && strings.HasPrefix(key, prefix)
}

// errEnded: a Writer was used after Commit or Abort.
var errEnded = errors.New("the value was committed or aborted already")

// check puts what a context has to say before another error.
func check(ctx context.Context, err error) error {
	if done := ctx.Err(); done != nil {
		return done
	}
	return err
}

// checkMove keeps moves from going out of and into themselves.
func checkMove(from, to string) error {
	if err := errors.Join(CheckKey(from), CheckKey(to)); err != nil {
		return err
	}
	if from == to || under(to, from) || under(from, to) {
		return fmt.Errorf("one lies in the other: %w", ErrKey)
	}
	return nil
}

func checkWritten(off int64, n int, written int64) error {
	if off < 0 || int64(n) > written-off {
		return fmt.Errorf("bytes [%d, +%d) of the %d that were written: %w", off, n, written, ErrRange)
	}
	return nil
}
