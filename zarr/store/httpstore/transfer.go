package httpstore

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/quiver-gpu/quiver/zarr/store"
)

const (
	maxBackoff    = 10 * time.Second
	maxRetryAfter = 30 * time.Second
	// A buffer begins with at most maxGuess bytes, because a range or a header may only
	// claim more.
	maxGuess = 32 << 20
)

// transfer is the reading of one range of a value, in as many responses as it takes.
type transfer struct {
	store   *Store
	key     string
	version *version
	// wholeUpTo is the length of a value that is read whole if the server ignores ranges.
	wholeUpTo int64

	r         store.Range // what is wanted
	start     int64       // of value in the stored value, if it is known
	end       int64       // of what is wanted, if it is known
	haveStart bool
	haveEnd   bool
	ignored   bool   // whether the server ignored the range, and r became the whole value
	value     []byte // what has been read
}

// transfer reads a range of a value.
func (s *Store) transfer(ctx context.Context, key string, r store.Range, v *version, wholeUpTo int64) (*transfer, error) {
	if err := check(ctx, key); err != nil {
		return nil, err
	}
	t := &transfer{store: s, key: key, version: v, wholeUpTo: wholeUpTo}
	if err := t.want(r); err != nil {
		return nil, err
	}
	if _, length, _, _ := r.Request(); length == 0 {
		_, err := s.size(ctx, key, v) // no range is empty in HTTP, and a missing key is an error
		return t, err
	}
	for failures := 0; ; {
		before := len(t.value)
		done, err := t.request(ctx)
		if done && err == nil {
			return t, nil
		}
		if len(t.value) > before {
			failures = 0
		}
		if err == nil {
			continue // a server may send less than was asked for
		}
		if err := s.wait(ctx, failures, err); err != nil {
			return nil, err
		}
		failures++
	}
}

// want sets the range, of which nothing has been read.
func (t *transfer) want(r store.Range) error {
	offset, length, fromEnd, err := r.Request()
	if err != nil {
		return err
	}
	t.r, t.value = r, t.value[:0]
	t.start, t.haveStart = offset, !fromEnd
	t.end, t.haveEnd = offset+length, !fromEnd && length >= 0
	return nil
}

// header returns the Range field for what is missing; it is empty for a whole value.
func (t *transfer) header() string {
	next := t.start + int64(len(t.value))
	switch {
	case !t.haveStart:
		_, length, _, _ := t.r.Request()
		return fmt.Sprintf("bytes=-%d", length)
	case t.haveEnd && (next > 0 || t.r != store.Range{}):
		return fmt.Sprintf("bytes=%d-%d", next, t.end-1)
	case next > 0:
		return fmt.Sprintf("bytes=%d-", next)
	}
	return ""
}

// request makes one request. It returns done if the value is complete.
func (t *transfer) request(ctx context.Context) (done bool, err error) {
	wanted := t.header()
	resp, err := t.store.do(ctx, http.MethodGet, t.key, wanted, t.version)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusOK:
		return t.readWhole(resp, wanted != "")
	case resp.StatusCode == http.StatusPartialContent && wanted != "":
		return t.readPart(resp)
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && wanted != "":
		return t.notSatisfiable(ctx, resp)
	}
	return false, permanent(fmt.Errorf("unexpected status %q", resp.Status))
}

// readPart reads a response that has a part of the value.
func (t *transfer) readPart(resp *http.Response) (done bool, err error) {
	field := resp.Header.Get("Content-Range")
	first, end, total, err := parseContentRange(field)
	if err != nil {
		return false, permanent(err)
	}
	if err := t.version.check(resp, total); err != nil {
		return false, err
	}
	t.store.ranges.Store(true)
	if !t.haveStart {
		_, length, _, _ := t.r.Request()
		if total >= 0 && first != max(total-length, 0) || end-first > length {
			return false, permanent(fmt.Errorf("content range %q for the last %d bytes", field, length))
		}
		t.start, t.haveStart = first, true
	}
	next := t.start + int64(len(t.value))
	if first > next {
		return false, permanent(fmt.Errorf("content range %q, want bytes from %d", field, next))
	}
	if total >= 0 && (!t.haveEnd || t.end > total) {
		t.end, t.haveEnd = total, true
	}
	if err := t.read(resp.Body, first, end); err != nil {
		return false, err
	}
	if end <= next && !(t.haveEnd && next >= t.end) {
		return false, permanent(fmt.Errorf("content range %q, want bytes from %d", field, next))
	}
	// Without an end, a response with status 416 will say that this was all.
	return t.haveEnd && end >= t.end, nil
}

// readWhole reads what is wanted of a response that has the whole value.
func (t *transfer) readWhole(resp *http.Response, ranged bool) (done bool, err error) {
	total := resp.ContentLength // -1 if it is unknown
	if err := t.version.check(resp, total); err != nil {
		return false, err
	}
	if ranged && len(t.value) == 0 && total >= 0 && total <= t.wholeUpTo {
		t.ignored = true
		if err := t.want(store.Range{}); err != nil {
			return false, err
		}
	}
	if total < 0 {
		return t.readUnknown(resp.Body)
	}
	if t.start, t.end, err = t.r.Resolve(total); err != nil {
		return false, err
	}
	t.haveStart, t.haveEnd = true, true
	if err := t.read(resp.Body, 0, total); err != nil {
		return false, err
	}
	return true, nil
}

// readUnknown reads what is wanted of a whole value whose length the server does not say.
// It begins again after each failure.
func (t *transfer) readUnknown(body io.Reader) (done bool, err error) {
	t.value = t.value[:0]
	if t.haveStart {
		if _, err := io.CopyN(io.Discard, body, t.start); errors.Is(err, io.EOF) {
			return true, nil // the range begins at the end or after it
		} else if err != nil {
			return false, err
		}
		if t.haveEnd {
			body = io.LimitReader(body, t.end-t.start)
		}
	}
	value, err := io.ReadAll(body)
	if err != nil {
		return false, err
	}
	start, _, err := t.r.Resolve(int64(len(value)))
	if !t.haveStart {
		value = value[start:]
	}
	t.value = value
	return true, err
}

// notSatisfiable handles status 416: the range begins at the end of the value or after it,
// or the server refuses more bytes than there are.
func (t *transfer) notSatisfiable(ctx context.Context, resp *http.Response) (done bool, err error) {
	_, _, total, err := parseContentRange(resp.Header.Get("Content-Range"))
	if err != nil || total < 0 {
		if total, err = t.store.size(ctx, t.key, t.version); err != nil {
			return false, err
		}
	}
	if next := t.start + int64(len(t.value)); len(t.value) > 0 {
		if next == total {
			return true, nil // earlier responses did not say the length
		}
		return false, permanent(fmt.Errorf("status %q from byte %d of %d: %w", resp.Status, next, total, store.ErrChanged))
	}
	start, end, err := t.r.Resolve(total)
	if err != nil || start == end {
		return true, err
	}
	if t.haveStart && t.haveEnd && t.end == end {
		return false, permanent(fmt.Errorf("status %q for %s of %d", resp.Status, t.r, total))
	}
	t.start, t.end, t.haveStart, t.haveEnd = start, end, true, true
	return false, nil
}

// read appends what is missing of a body that has bytes [first, end) of the value.
func (t *transfer) read(body io.Reader, first, end int64) error {
	next := t.start + int64(len(t.value))
	if t.haveEnd {
		end = min(end, t.end)
	}
	if end <= next {
		return nil
	}
	if _, err := io.CopyN(io.Discard, body, next-first); err != nil {
		return fmt.Errorf("reading to byte %d: %w", next, err)
	}
	buffer := bytes.NewBuffer(t.value)
	want := end - next
	if guess := want + bytes.MinRead; int64(buffer.Available()) < guess { // else ReadFrom grows it
		buffer.Grow(int(min(guess, maxGuess)))
	}
	n, err := buffer.ReadFrom(io.LimitReader(body, want))
	t.value = buffer.Bytes()
	if err == nil && n < want {
		err = fmt.Errorf("got %d bytes from %d on, want %d: %w", n, next, want, io.ErrUnexpectedEOF)
	}
	if err != nil && !t.version.identified() {
		t.value = t.value[:0] // without an ETag or a time, the rest may be of another value
	}
	return err
}

// parseContentRange parses "bytes FIRST-LAST/TOTAL" into first, the end of the range and
// total, which is -1 for "*". In "bytes */TOTAL", first and end are 0.
func parseContentRange(field string) (first, end, total int64, err error) {
	bad := fmt.Errorf("malformed content range %q", field)
	unit, rest, ok := strings.Cut(field, " ")
	bounds, size, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 || !strings.EqualFold(unit, "bytes") {
		return 0, 0, -1, bad
	}
	total = -1
	if size != "*" {
		if total, err = strconv.ParseInt(size, 10, 64); err != nil || total < 0 {
			return 0, 0, -1, bad
		}
	}
	if bounds == "*" {
		return 0, 0, total, nil
	}
	// net/http sends "0--1/0" for a suffix of an empty file.
	from, to, ok := strings.Cut(bounds, "-")
	if !ok {
		return 0, 0, -1, bad
	}
	first, err = strconv.ParseInt(from, 10, 64)
	last, err2 := strconv.ParseInt(to, 10, 64)
	if err != nil || err2 != nil || first < 0 || last < first-1 || last == 1<<63-1 || total >= 0 && last >= total {
		return 0, 0, -1, bad
	}
	return first, last + 1, total, nil
}

// size asks for the length of a value.
func (s *Store) size(ctx context.Context, key string, v *version) (int64, error) {
	for failures := 0; ; failures++ {
		n, err := s.trySize(ctx, key, v)
		if err == nil {
			return n, nil
		}
		if err := s.wait(ctx, failures, err); err != nil {
			return 0, err
		}
	}
}

func (s *Store) trySize(ctx context.Context, key string, v *version) (int64, error) {
	resp, err := s.do(ctx, http.MethodHead, key, "", v)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusOK && resp.ContentLength >= 0 {
		return resp.ContentLength, v.check(resp, resp.ContentLength)
	}
	// The server has no HEAD, or does not know the length before it sends the value.
	resp, err = s.do(ctx, http.MethodGet, key, "bytes=0-0", v)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _, n, err := parseContentRange(resp.Header.Get("Content-Range"))
	if err != nil {
		n = -1
	}
	if resp.StatusCode == http.StatusOK {
		if n = resp.ContentLength; n < 0 {
			n, err = io.Copy(io.Discard, resp.Body)
			if err != nil {
				return 0, err
			}
		}
	}
	switch {
	case n < 0:
		return 0, permanent(fmt.Errorf("status %q without a length", resp.Status))
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return n, nil // an empty value; such a response need not have an ETag
	}
	return n, v.check(resp, n)
}

// do makes a request and returns a response with status 200, 206, 416, or, for HEAD, one
// that says that the method is not allowed. Other statuses are errors.
func (s *Store) do(ctx context.Context, method, key, ranges string, v *version) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base.Scheme+"://"+s.base.Host, nil)
	if err != nil {
		return nil, permanent(errors.New("malformed URL"))
	}
	req.URL = s.url(key)
	for field, values := range s.options.Header {
		req.Header[http.CanonicalHeaderKey(field)] = append([]string(nil), values...)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	// The bytes of a range are those of the stored value, not of a compressed one.
	req.Header.Set("Accept-Encoding", "identity")
	if ranges != "" {
		req.Header.Set("Range", ranges)
	}
	v.require(req)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, requestError(resp, err)
	}
	switch status := resp.StatusCode; {
	case status == http.StatusOK, status == http.StatusPartialContent:
		if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
			err = permanent(fmt.Errorf("content encoding %q, want none", encoding))
		}
	case status == http.StatusRequestedRangeNotSatisfiable,
		method == http.MethodHead && (status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented):
	default:
		err = s.statusError(resp)
	}
	if err != nil {
		_, _ = io.CopyN(io.Discard, resp.Body, 4096) // the connection can be used again
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// requestError removes the URL from an error of a request.
func requestError(resp *http.Response, err error) error {
	if resp != nil {
		return permanent(errors.New("the client refuses a redirect"))
	}
	var withURL *url.Error
	for errors.As(err, &withURL) {
		err = withURL.Err
	}
	var certificate *tls.CertificateVerificationError
	var dns *net.DNSError
	if errors.As(err, &certificate) || errors.As(err, &dns) && dns.IsNotFound {
		return permanent(err)
	}
	return err
}

func (s *Store) statusError(resp *http.Response) error {
	err := fmt.Errorf("status %q", resp.Status)
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return permanent(fmt.Errorf("%w: %w", err, store.ErrNotFound))
	case http.StatusPreconditionFailed:
		return permanent(fmt.Errorf("%w: %w", err, store.ErrChanged))
	case http.StatusForbidden:
		if s.options.ForbiddenIsMissing {
			return permanent(fmt.Errorf("%w: %w", err, store.ErrNotFound))
		}
		return permanent(fmt.Errorf("%w: %w", err, fs.ErrPermission))
	case http.StatusUnauthorized:
		return permanent(fmt.Errorf("%w: %w", err, fs.ErrPermission))
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &temporaryError{err, retryAfter(resp)}
	}
	return permanent(err)
}

// retryAfter returns the wait that a response asks for.
func retryAfter(resp *http.Response) time.Duration {
	field := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(field, 10, 16); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(field); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
}

// temporaryError is an error after which the server wants a wait.
type temporaryError struct {
	error
	after time.Duration
}

func (e *temporaryError) Unwrap() error { return e.error }

// permanentError is an error that a repetition would not change.
type permanentError struct{ error }

func permanent(err error) error { return &permanentError{err} }

func (e *permanentError) Unwrap() error { return e.error }

// wait waits before a repetition. It returns err if a repetition is not allowed.
func (s *Store) wait(ctx context.Context, failures int, err error) error {
	var final *permanentError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &final):
		return final.error
	case failures >= s.options.Retries:
		return fmt.Errorf("%w (the last of %d attempts)", err, failures+1)
	}
	mean := min(s.options.Backoff<<min(failures, 16), maxBackoff)
	delay := mean/2 + rand.N(mean+1) // requests that failed together do not return together
	var temporary *temporaryError
	if errors.As(err, &temporary) {
		delay = max(delay, temporary.after)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
