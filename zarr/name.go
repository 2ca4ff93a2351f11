package zarr

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrInvalidName: a name cannot be that of a node; test with errors.Is.
var ErrInvalidName = errors.New("malformed node name")

// metadataKey is the key of a node's metadata, under the node's path.
const metadataKey = "zarr.json"

// CheckName answers an error that is ErrName unless a group or an array can
// have the name (Zarr core, "Node names"): not empty, UTF-8, no "/", not only
// periods, not beginning with "__", not "zarr.json".
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a name cannot be empty: %w", ErrInvalidName)
	case !utf8.ValidString(name): // which metadata, in JSON, could not repeat
		return fmt.Errorf("name %q is not UTF-8: %w", name, ErrInvalidName)
	case strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("name %q has a slash or a NUL: %w", name, ErrInvalidName)
	case strings.Trim(name, ".") == "":
		return fmt.Errorf("name %q is only periods: %w", name, ErrInvalidName)
	case strings.HasPrefix(name, "__"):
		return fmt.Errorf(`name %q begins with "__", which is reserved: %w`, name, ErrInvalidName)
	case name == metadataKey:
		return fmt.Errorf("name %q is that of metadata: %w", name, ErrInvalidName)
	}
	return nil
}

// checkPath is CheckName for the names that make up a path; "" is the root.
func checkPath(path string) error {
	if path == "" {
		return nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if err := CheckName(name); err != nil {
			return fmt.Errorf("path %q: %w", path, err)
		}
	}
	return nil
}

// join puts a key or a path under a path.
func join(path, rest string) string {
	if path == "" || rest == "" {
		return path + rest
	}
	return path + "/" + rest
}
