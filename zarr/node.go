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

// Node is the metadata of a group or an array: *[GroupMetadata], *[ArrayMetadata] or,
// for members of a group, *[UnreadableNode].
type Node interface {
	json.Marshaler
	node()
}

// ErrNodeType reports an array in place of a group, or a group in place of an array.
// Test with errors.Is.
var ErrNodeType = errors.New("node of another type")

// ParseNode parses the metadata document of a group or an array. Errors wrap
// errors.ErrUnsupported if the document needs a feature that this package lacks.
func ParseNode(raw []byte) (Node, error) { return parseNode(metajson.Clean(raw), 0) }

// ParseArray parses the metadata document of an array.
func ParseArray(raw []byte) (*ArrayMetadata, error) { return parseAs[*ArrayMetadata](raw) }

// ParseGroup parses the metadata document of a group.
func ParseGroup(raw []byte) (*GroupMetadata, error) { return parseAs[*GroupMetadata](raw) }

func parseAs[T Node](raw []byte) (T, error) {
	node, err := ParseNode(raw)
	if err != nil {
		var none T
		return none, err
	}
	return nodeAs[T](node)
}

// parseNode parses a document that is nested depth levels deep in consolidated
// metadata.
func parseNode(raw []byte, depth int) (Node, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("metadata is not UTF-8")
	}
	o, err := metajson.ParseObject("metadata", raw)
	if err != nil {
		return nil, err
	}
	var format int
	if err := o.DecodeRequired("zarr_format", &format); err != nil {
		return nil, err
	}
	if format != 3 {
		return nil, fmt.Errorf("zarr_format %d: %w", format, errors.ErrUnsupported)
	}
	var kind string
	if err := o.DecodeRequired("node_type", &kind); err != nil {
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

// parseMember parses the cleaned metadata of a member of a group. A document that is
// malformed or needs a missing feature becomes an [UnreadableNode].
func parseMember(raw []byte, depth int) Node {
	node, err := parseNode(raw, depth)
	if err != nil {
		return &UnreadableNode{Raw: slices.Clone(metajson.Restore(raw)), Err: err}
	}
	return node
}

func nodeAs[T Node](node Node) (T, error) {
	var none T
	switch n := node.(type) {
	case T:
		return n, nil
	case *UnreadableNode:
		return none, n.Err
	default:
		return none, fmt.Errorf("got %T, want %T: %w", node, none, ErrNodeType)
	}
}

// UnreadableNode is a member of a group whose metadata is malformed or needs a feature
// that this package lacks, such as a codec. The group and its other members remain
// usable; the member itself cannot be opened.
type UnreadableNode struct {
	// Raw is the metadata document of the member, which may not be JSON.
	Raw []byte
	// Err says what is wrong. It wraps errors.ErrUnsupported if a feature is missing.
	Err error
}

func (*UnreadableNode) node() {}

func (n *UnreadableNode) isJSON() bool { return json.Valid(n.Raw) }

// MarshalJSON returns the document unchanged, or an error if it is not JSON.
func (n *UnreadableNode) MarshalJSON() ([]byte, error) {
	if !n.isJSON() {
		return nil, fmt.Errorf("metadata is not JSON: %w", n.Err)
	}
	return n.Raw, nil
}

// readNode reads the metadata document of the node at path.
func readNode(ctx context.Context, s store.Store, path string) (Node, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	raw, err := s.Get(ctx, joinPath(path, metadataKey), store.Range{})
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", path, err)
	}
	node := parseMember(metajson.Clean(raw), 0)
	if broken, ok := node.(*UnreadableNode); ok {
		broken.Err = fmt.Errorf("node %q: %w", path, broken.Err)
	}
	return node, nil
}

// writeNode writes the metadata document of the node at path.
func writeNode(ctx context.Context, s store.Store, path string, node json.Marshaler) error {
	raw, err := metajson.MarshalDocument(node)
	if err != nil {
		return fmt.Errorf("metadata of %q: %w", path, err)
	}
	return s.Set(ctx, joinPath(path, metadataKey), raw)
}

// ErrInvalidName reports that a node cannot have a name. Test with errors.Is.
var ErrInvalidName = errors.New("malformed node name")

// metadataKey is the key of a metadata document relative to the path of its node.
const metadataKey = "zarr.json"

// CheckName returns an error wrapping [ErrInvalidName] unless a node can have the name.
// A name is valid UTF-8, not empty and not "zarr.json". It has no "/" or NUL, does not
// begin with "__" and is not only periods (Zarr core 3.1, "Node names").
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a name cannot be empty: %w", ErrInvalidName)
	case !utf8.ValidString(name): // JSON cannot represent it in consolidated metadata
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

// checkPath applies [CheckName] to each name of a path. The root is "".
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

// joinPath appends a key or a path to a path.
func joinPath(path, rest string) string {
	if path == "" || rest == "" {
		return path + rest
	}
	return path + "/" + rest
}
