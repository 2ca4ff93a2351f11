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

// ParseNode parses the metadata document of a group or an array: zarr.json of Zarr v3,
// or .zarray, .zgroup or .zmetadata of Zarr v2. The attributes of a node of Zarr v2 are
// not in its document, except in .zmetadata. Errors wrap errors.ErrUnsupported if the
// document needs a feature that this package lacks.
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

// parseDocument returns the members of a cleaned document.
func parseDocument(raw []byte) (*metajson.Object, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("metadata is not UTF-8")
	}
	return metajson.ParseObject("metadata", raw)
}

// parseNode parses a cleaned document that is nested depth levels deep in consolidated
// metadata of Zarr v3.
func parseNode(raw []byte, depth int) (Node, error) {
	o, err := parseDocument(raw)
	if err != nil {
		return nil, err
	}
	if depth == 0 && o.Has("zarr_consolidated_format") && !o.Has("zarr_format") {
		return parseV2Consolidated(o)
	}
	var format int
	if err := o.DecodeRequired("zarr_format", &format); err != nil {
		return nil, err
	}
	switch {
	case format == 2 && depth == 0 && o.Has("shape"):
		return parseV2Document(raw, v2ArrayKey)
	case format == 2 && depth == 0:
		return parseV2Document(raw, v2GroupKey)
	case format != 3:
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

	key string // of the document of Zarr v2; empty for zarr.json
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

// formatOf returns the version of Zarr of a node, 0 if it is unknown.
func formatOf(node Node) int {
	var format int
	switch n := node.(type) {
	case *ArrayMetadata:
		format = n.Format
	case *GroupMetadata:
		format = n.Format
	default:
		return 0
	}
	if format == 0 {
		return 3
	}
	return format
}

func checkFormat(format int) error {
	if format != 0 && format != 2 && format != 3 {
		return fmt.Errorf("format %d, want 2 or 3", format)
	}
	return nil
}

// ReadNode returns the metadata of the group or the array at a path, which [OpenGroup] or
// [Open] opens. It returns an error wrapping store.ErrNotFound if there is neither, and one
// wrapping errors.ErrUnsupported if the node needs a feature that this package lacks.
func ReadNode(ctx context.Context, s store.Store, path string) (Node, error) {
	if s == nil {
		return nil, fmt.Errorf("zarr.ReadNode: node %q: %w", path, errNilStore)
	}
	node, err := readNode(ctx, s, path)
	if err != nil {
		return nil, fmt.Errorf("zarr.ReadNode: %w", err)
	}
	if broken, ok := node.(*UnreadableNode); ok {
		return nil, fmt.Errorf("zarr.ReadNode: %w", broken.Err)
	}
	return node, nil
}

// readNode reads the metadata of the node at path. If both versions of Zarr have a node
// there, it is that of v3.
func readNode(ctx context.Context, s store.Store, path string) (Node, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	node, err := readVersions(ctx, s, path)
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", path, err)
	}
	if broken, ok := node.(*UnreadableNode); ok {
		broken.Err = fmt.Errorf("node %q: %w", path, broken.Err)
	}
	return node, nil
}

func readVersions(ctx context.Context, s store.Store, path string) (Node, error) {
	raw, err := s.Get(ctx, joinPath(path, metadataKey), store.Range{})
	if err == nil {
		return parseMember(metajson.Clean(raw), 0), nil
	}
	for _, key := range []string{v2ArrayKey, v2GroupKey} {
		if !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if raw, err = s.Get(ctx, joinPath(path, key), store.Range{}); err == nil {
			return readV2(ctx, s, path, parseV2Member(metajson.Clean(raw), key))
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("none of %s, %s and %s: %w", metadataKey, v2ArrayKey, v2GroupKey, err)
	}
	return nil, err
}

// readV2 completes a node of Zarr v2 by its other documents: the consolidated metadata
// of a group, and the attributes.
func readV2(ctx context.Context, s store.Store, path string, node Node) (Node, error) {
	switch node.(type) {
	case *UnreadableNode:
		return node, nil
	case *GroupMetadata:
		raw, err := getOptional(ctx, s, joinPath(path, v2ConsolidatedKey))
		if err != nil {
			return nil, err
		}
		if raw != nil {
			o, err := parseDocument(metajson.Clean(raw))
			if err == nil {
				node, err = parseV2Consolidated(o)
			}
			if err != nil {
				return unreadableV2(raw, v2ConsolidatedKey, err), nil
			}
		}
	}
	raw, err := getOptional(ctx, s, joinPath(path, v2AttributesKey))
	if err != nil || raw == nil {
		return node, err
	}
	if err := setV2Attributes(node, metajson.Clean(raw)); err != nil {
		return unreadableV2(raw, v2AttributesKey, err), nil
	}
	return node, nil
}

func unreadableV2(raw []byte, key string, err error) Node {
	return &UnreadableNode{Raw: raw, Err: fmt.Errorf("%s: %w", key, err), key: key}
}

// getOptional returns nil if the store has no such key.
func getOptional(ctx context.Context, s store.Store, key string) ([]byte, error) {
	raw, err := s.Get(ctx, key, store.Range{})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case raw == nil:
		return []byte{}, nil
	}
	return raw, nil
}

// isNil reports whether a node is nil, or a nil pointer of one of the types of nodes.
func isNil(node Node) bool {
	switch m := node.(type) {
	case *ArrayMetadata:
		return m == nil
	case *GroupMetadata:
		return m == nil
	case *UnreadableNode:
		return m == nil
	}
	return node == nil
}

// document is one document of the metadata of a node, with its key relative to the path
// of the node.
type document struct {
	key  string
	data []byte
}

// documents returns the metadata documents of a node. The first one makes the node
// exist. A node of Zarr v3 has only that one.
func documents(node Node) ([]document, error) {
	if isNil(node) {
		return nil, errors.New("nil node")
	}
	parts := metajson.Members{{Key: metadataKey, Value: node}}
	if formatOf(node) == 2 {
		switch m := node.(type) {
		case *ArrayMetadata:
			parts = metajson.Members{{Key: v2ArrayKey, Value: m}, {Key: v2AttributesKey, Value: m.v2Attributes()}}
		case *GroupMetadata:
			plain := *m
			plain.Consolidated = nil
			parts = metajson.Members{{Key: v2GroupKey, Value: &plain}, {Key: v2AttributesKey, Value: encodableAttributes(m.Attributes)}}
			if m.Consolidated != nil {
				parts = append(parts, metajson.Member{Key: v2ConsolidatedKey, Value: m})
			}
		}
	}
	list := make([]document, len(parts))
	for i, part := range parts {
		data, err := metajson.MarshalDocument(part.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.Key, err)
		}
		list[i] = document{part.Key, data}
	}
	return list, nil
}

// writeNode writes the metadata documents of the node at path, the one that makes it
// exist last.
func writeNode(ctx context.Context, s store.Store, path string, node Node) error {
	list, err := documents(node)
	if err != nil {
		return fmt.Errorf("metadata of %q: %w", path, err)
	}
	return setDocuments(ctx, s, path, list)
}

// setDocuments stores documents of the node at path, the first one last.
func setDocuments(ctx context.Context, s store.Store, path string, list []document) error {
	for _, d := range slices.Backward(list) {
		if err := s.Set(ctx, joinPath(path, d.key), d.data); err != nil {
			return err
		}
	}
	return nil
}

var errNilStore = errors.New("nil store")

// ErrInvalidName reports that a node cannot have a name. Test with errors.Is.
var ErrInvalidName = errors.New("malformed node name")

// metadataKey is the key of a metadata document relative to the path of its node.
const metadataKey = "zarr.json"

// CheckName returns an error wrapping [ErrInvalidName] unless a node of Zarr v3 can have
// the name. A name is valid UTF-8, not empty and not "zarr.json". It has no "/" or NUL,
// does not begin with "__" and is not only periods (Zarr core 3.1, "Node names"). Nodes
// of Zarr v2, and those that exist, may begin with "__".
func CheckName(name string) error {
	if strings.HasPrefix(name, "__") {
		return fmt.Errorf(`name %q begins with "__", which is reserved: %w`, name, ErrInvalidName)
	}
	return checkName(name)
}

// checkName is CheckName of a name that may be reserved.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a name cannot be empty: %w", ErrInvalidName)
	case !utf8.ValidString(name): // JSON cannot represent it in consolidated metadata
		return fmt.Errorf("name %q is not UTF-8: %w", name, ErrInvalidName)
	case strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("name %q has a slash or a NUL: %w", name, ErrInvalidName)
	case strings.Trim(name, ".") == "":
		return fmt.Errorf("name %q is only periods: %w", name, ErrInvalidName)
	case name == metadataKey:
		return fmt.Errorf("name %q is that of metadata: %w", name, ErrInvalidName)
	}
	return nil
}

// checkPath returns an error unless a node can exist at a path. The root is "".
func checkPath(path string) error { return checkNames(path, checkName) }

// checkNewPath returns an error unless a node can be created at a path: in Zarr v3, names
// that begin with "__" are reserved.
func checkNewPath(path string, node Node) error {
	if formatOf(node) == 2 {
		return checkPath(path)
	}
	return checkNames(path, CheckName)
}

func checkNames(path string, check func(name string) error) error {
	if path == "" {
		return nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if err := check(name); err != nil {
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
