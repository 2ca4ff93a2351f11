package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Errors that stores wrap; test with errors.Is.
var (
	// ErrNotFound reports that no value has the key or the prefix.
	ErrNotFound = errors.New("not found")
	// ErrExists reports that a key has a value, or that the destination of a move exists.
	ErrExists = errors.New("already exists")
	// ErrReadOnly reports a write to a store that was opened for reading.
	ErrReadOnly = errors.New("read-only store")
	// ErrInvalidKey reports a malformed key or prefix.
	ErrInvalidKey = errors.New("malformed key")
	// ErrInvalidRange reports a range with a negative bound or an end before its start.
	ErrInvalidRange = errors.New("malformed range")
	// ErrChanged reports that a value was replaced while parts of it were read. Reading
	// again gets the new value.
	ErrChanged = errors.New("value changed while it was read")
)

// Store keeps values under keys. It is safe for concurrent use. Of two concurrent writes
// to one key one wins, whole. If the context is done when a method is called, the method
// returns the context's error without effect.
//
// Four methods are enough for a store. One that can do more also has methods of the
// optional interfaces, such as [Sizer]; callers use the function of the same purpose,
// such as [Size], which works on every store. Implementations pass the conformance suite
// of package storetest.
type Store interface {
	// Get returns a value or a range of it. The caller must not modify the result. It
	// returns an error wrapping ErrNotFound if no value has the key.
	Get(ctx context.Context, key string, r Range) ([]byte, error)
	// Set stores a value and replaces an earlier one. It does not retain value. It
	// returns an error wrapping ErrReadOnly if the store cannot be written.
	Set(ctx context.Context, key string, value []byte) error
	// Delete deletes a value. It returns nil if no value has the key.
	Delete(ctx context.Context, key string) error
	// List returns all keys under a prefix, sorted. It returns an error wrapping
	// errors.ErrUnsupported if the store cannot list, as over HTTP.
	List(ctx context.Context, prefix string) ([]string, error)
}

// Writer writes one value, which is invisible until Commit. It must be finished with
// Commit or Abort, and it is not safe for concurrent use.
type Writer interface {
	// Write appends bytes to the value.
	io.Writer
	// WriteAt overwrites bytes that Write has written. It returns an error wrapping
	// ErrInvalidRange for other offsets.
	io.WriterAt
	// Commit makes the value visible. The Writer is finished even if Commit fails.
	Commit() error
	// Abort discards the value. After Commit it does nothing.
	Abort() error
}

// Range is a part of a value. The zero value is the whole value.
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

// Between returns the range of bytes [start, end). It is clamped to the value.
func Between(start, end int64) Range { return Range{between, start, end} }

// From returns the range of all bytes from an offset.
func From(start int64) Range { return Range{kind: from, start: start} }

// Last returns the range of the last n bytes, or of the whole value if it is shorter.
func Last(n int64) Range { return Range{kind: last, end: n} }

// Resolve returns the bounds of the range in a value of the given size, so that all
// stores clamp alike: 0 <= start <= end <= size. It returns [ErrInvalidRange] if the
// range is malformed.
func (r Range) Resolve(size int64) (start, end int64, err error) {
	if r.start < 0 || r.end < 0 || r.kind == between && r.end < r.start {
		return 0, 0, fmt.Errorf("%s: %w", r, ErrInvalidRange)
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

// Request returns the range as a request to a server: length bytes from offset on, or all
// from there on if length is -1. If fromEnd, it is the last length bytes instead. It
// returns [ErrInvalidRange] if the range is malformed.
func (r Range) Request() (offset, length int64, fromEnd bool, err error) {
	if _, _, err := r.Resolve(0); err != nil {
		return 0, 0, false, err
	}
	switch r.kind {
	case between:
		return r.start, r.end - r.start, false, nil
	case from:
		return r.start, -1, false, nil
	case last:
		return 0, r.end, true, nil
	default:
		return 0, -1, false, nil
	}
}

// String formats the range for error messages.
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

// CheckKey returns an error wrapping [ErrInvalidKey] unless key consists of segments
// joined by slashes. A segment is not empty, "." or "..", and has no NUL.
func CheckKey(key string) error {
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsRune(segment, 0) {
			return fmt.Errorf("%q: %w", key, ErrInvalidKey)
		}
	}
	return nil
}

// CheckPrefix is [CheckKey] for prefixes, which may also be empty.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return CheckKey(prefix)
}

// isUnder reports whether a key is under a prefix.
func isUnder(key, prefix string) bool {
	return prefix == "" || len(key) > len(prefix) && key[len(prefix)] == '/' && strings.HasPrefix(key, prefix)
}

// errWriterClosed reports the use of a Writer after Commit or Abort.
var errWriterClosed = errors.New("writer is committed or aborted")

// contextErr returns the context's error if the context is done, otherwise err.
func contextErr(ctx context.Context, err error) error {
	if done := ctx.Err(); done != nil {
		return done
	}
	return err
}

// checkMove returns an error if from and to are equal or one is under the other.
func checkMove(from, to string) error {
	if err := errors.Join(CheckKey(from), CheckKey(to)); err != nil {
		return err
	}
	if from == to || isUnder(to, from) || isUnder(from, to) {
		return fmt.Errorf("one prefix is under the other: %w", ErrInvalidKey)
	}
	return nil
}

// checkOverwrite returns an error unless bytes [off, off+n) have been written.
func checkOverwrite(off int64, n int, written int64) error {
	if off < 0 || int64(n) > written-off {
		return fmt.Errorf("bytes [%d, +%d) are outside the %d written bytes: %w", off, n, written, ErrInvalidRange)
	}
	return nil
}
