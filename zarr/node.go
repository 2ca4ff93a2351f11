package zarr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Node is the metadata of a group or of an array: *GroupMetadata,
// *ArrayMetadata or, among the members of a group, *UnsupportedNode.
type Node interface {
	json.Marshaler
	node()
}

// ErrNodeType: an array was expected where a group is, or a group where an
// array is; test with errors.Is.
var ErrNodeType = errors.New("node of another type")

// ParseNode reads a metadata document of a group or of an array.
func ParseNode(raw []byte) (Node, error) { return parseNode(raw, 0) }

// ParseArray reads the metadata document of an array.
func ParseArray(raw []byte) (*ArrayMetadata, error) { return parseAs[*ArrayMetadata](raw) }

// ParseGroup reads the metadata document of a group.
func ParseGroup(raw []byte) (*GroupMetadata, error) { return parseAs[*GroupMetadata](raw) }

func parseAs[T Node](raw []byte) (T, error) {
	node, err := ParseNode(raw)
	if err != nil {
		var none T
		return none, err
	}
	return nodeAs[T](node)
}

// parseNode reads one that is so deep in consolidated metadata.
func parseNode(raw []byte, depth int) (Node, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("metadata is not UTF-8")
	}
	o, err := metajson.ParseObject("metadata", raw)
	if err != nil {
		return nil, err
	}
	var format int
	if err := o.Need("zarr_format", &format); err != nil {
		return nil, err
	}
	if format != 3 {
		return nil, fmt.Errorf("zarr_format %d: %w", format, errors.ErrUnsupported)
	}
	var kind string
	if err := o.Need("node_type", &kind); err != nil {
		return nil, err
	}
	switch kind {
	case "array":
		return parseArray(o)
	case "group":
		return parseGroup(o, depth)
	default:
		return nil, fmt.Errorf(`node_type %q is neither "array" nor "group"`, kind)
	}
}

// parseMember reads the metadata of a node as a member of a group.
func parseMember(raw []byte, depth int) (Node, error) {
	node, err := parseNode(raw, depth)
	if errors.Is(err, errors.ErrUnsupported) {
		return &UnsupportedNode{Raw: slices.Clone(raw), Err: err}, nil
	}
	return node, err
}

func nodeAs[T Node](node Node) (T, error) {
	var none T
	switch n := node.(type) {
	case T:
		return n, nil
	case *UnsupportedNode:
		return none, n.Err
	default:
		return none, fmt.Errorf("%T where %T was expected: %w", node, none, ErrNodeType)
	}
}

// UnsupportedNode is a member of a group whose metadata asks for something that
// this package lacks, such as a codec. The group can be used all the same; the
// member cannot be opened.
type UnsupportedNode struct {
	// Raw is the member's metadata document.
	Raw json.RawMessage
	// Err says what is lacking; it is errors.ErrUnsupported.
	Err error
}

func (*UnsupportedNode) node() {}

// MarshalJSON returns the document as it is.
func (n *UnsupportedNode) MarshalJSON() ([]byte, error) { return n.Raw, nil }

// readNode reads the metadata under a path.
func readNode(ctx context.Context, s store.Store, path string) (Node, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	raw, err := s.Get(ctx, join(path, metadataKey), store.Range{})
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", path, err)
	}
	node, err := parseMember(raw, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", path, err)
	}
	return node, nil
}

// writeNode writes the metadata under a path.
func writeNode(ctx context.Context, s store.Store, path string, node json.Marshaler) error {
	raw, err := metajson.Document(node)
	if err != nil {
		return fmt.Errorf("metadata of %q: %w", path, err)
	}
	return s.Set(ctx, join(path, metadataKey), raw)
}

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
