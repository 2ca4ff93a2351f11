package dissociated

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Endpoint is what a client must know of a server: the query parameters of its
// URI.
type Endpoint struct {
	// WantData is the tag of the message that asks for a stream (want_data).
	WantData Tag
	// FreeData is the tag of messages that free memory (free_data), nil where the
	// server sends packed bodies only.
	FreeData *Tag
	// RemoteHandle opens the memory that locations count from (remote_handle);
	// empty where there is none.
	RemoteHandle []byte
}

// AddTo sets the parameters in the query of a URI.
func (e Endpoint) AddTo(u *url.URL) {
	q := u.Query()
	q.Set("want_data", strconv.FormatUint(uint64(e.WantData), 10))
	if e.FreeData != nil {
		q.Set("free_data", strconv.FormatUint(uint64(*e.FreeData), 10))
	}
	if len(e.RemoteHandle) > 0 {
		q.Set("remote_handle", base64.StdEncoding.EncodeToString(e.RemoteHandle))
	}
	u.RawQuery = q.Encode()
}

// ParseEndpoint reads the parameters of a URI. It leaves others alone. A
// parameter that is missing, is there twice, or is no uint64 or no base64 is
// ErrProtocol, and so are two tags that are one.
func ParseEndpoint(u *url.URL) (Endpoint, error) {
	fail := func(err error) (Endpoint, error) {
		return Endpoint{}, fmt.Errorf("%w: the URI's %w", ErrProtocol, err)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fail(fmt.Errorf("query: %w", err))
	}
	want, err := tagOf(q, "want_data")
	if err != nil {
		return fail(err)
	}
	if want == nil {
		return fail(fmt.Errorf("want_data is missing"))
	}
	e := Endpoint{WantData: *want}
	if e.FreeData, err = tagOf(q, "free_data"); err != nil {
		return fail(err)
	}
	if e.FreeData != nil && *e.FreeData == e.WantData {
		return fail(fmt.Errorf("free_data is %d as want_data is", e.WantData))
	}
	handle, _, err := single(q, "remote_handle")
	if err != nil {
		return fail(err)
	}
	if e.RemoteHandle, err = decode(handle); err != nil {
		return fail(fmt.Errorf("remote_handle: %w", err))
	}
	return e, nil
}

// decode reads base64 of either alphabet, padded or not: the document does not
// say which, and a plus sign is a space in a query.
func decode(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/", " ", "+").Replace(text)
	if len(text)%4 == 0 {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	}
	return base64.RawStdEncoding.Strict().DecodeString(text)
}

func tagOf(q url.Values, name string) (*Tag, error) {
	text, ok, err := single(q, name)
	if err != nil || !ok {
		return nil, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: %q is no uint64", name, text)
	}
	t := Tag(n)
	return &t, nil
}

func single(q url.Values, name string) (value string, ok bool, err error) {
	switch all := q[name]; len(all) {
	case 0:
		return "", false, nil
	case 1:
		return all[0], true, nil
	default:
		return "", false, fmt.Errorf("%s is there %d times", name, len(all))
	}
}
