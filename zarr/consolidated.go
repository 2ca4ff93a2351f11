package zarr

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// sortedPaths returns the paths of nodes, ordered by depth, then by name.
func sortedPaths(nodes map[string]Node) []string {
	return slices.SortedFunc(maps.Keys(nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
}

// consolidatedMembers returns the documents of nodes by path.
func consolidatedMembers(nodes map[string]Node) (metajson.Members, error) {
	members := metajson.Members{} // encodes as {}, not null
	for _, path := range sortedPaths(nodes) {
		node := nodes[path]
		if n, ok := node.(*UnreadableNode); ok && (n.key != "" || !n.isJSON()) {
			continue // would make the whole document malformed
		}
		if formatOf(node) == 2 {
			return nil, fmt.Errorf("%q is a node of Zarr v2: %w in consolidated metadata of Zarr v3", path, errors.ErrUnsupported)
		}
		members = append(members, metajson.Member{Key: path, Value: node})
	}
	return members, nil
}

// maxConsolidatedDepth bounds the nesting of consolidated metadata. Parsing takes time
// quadratic in the depth, and documents in use are flat.
const maxConsolidatedDepth = 16

// maxFillBytes bounds the memory of all fill values in consolidated metadata beyond the
// size of their documents. A short text is the fill value of a long element.
const maxFillBytes = 16 << 20

// fillBudget is the number of bytes that fill values may still take.
type fillBudget int64

// spend returns the node, or an [UnreadableNode] if its fill value exceeds the budget.
func (b *fillBudget) spend(node Node, raw []byte) Node {
	m, ok := node.(*ArrayMetadata)
	if !ok || len(m.FillValue) <= len(raw) {
		return node
	}
	*b -= fillBudget(len(m.FillValue))
	if *b >= 0 {
		return node
	}
	err := fmt.Errorf("fill values of consolidated metadata exceed %d bytes: %w", maxFillBytes, errors.ErrUnsupported)
	key := ""
	if m.Format == 2 {
		key = v2ArrayKey
	}
	return &UnreadableNode{Raw: slices.Clone(metajson.Restore(raw)), Err: err, key: key}
}

func parseConsolidated(raw json.RawMessage, depth int) (map[string]Node, error) {
	if depth > maxConsolidatedDepth {
		return nil, fmt.Errorf("consolidated_metadata nests deeper than %d", maxConsolidatedDepth)
	}
	o, err := metajson.ParseObject("consolidated_metadata", raw)
	if err != nil {
		return nil, err
	}
	var kind string
	if err := o.DecodeRequired("kind", &kind); err != nil {
		return nil, err
	}
	if kind != "inline" {
		return nil, fmt.Errorf("consolidated_metadata of kind %q: %w", kind, errors.ErrUnsupported)
	}
	var must bool
	if _, err := o.DecodeOptional("must_understand", &must); err != nil {
		return nil, err
	}
	var members json.RawMessage
	if err := o.DecodeRequired("metadata", &members); err != nil {
		return nil, err
	}
	// Other keys are ignored: readers need not understand consolidated metadata.
	docs, err := metajson.ParseObject("consolidated_metadata", members)
	if err != nil {
		return nil, err
	}
	nodes, budget := map[string]Node{}, fillBudget(maxFillBytes)
	for _, path := range docs.Keys() {
		doc, _ := docs.Take(path)
		if err := errors.Join(checkNotRoot(path), checkPath(path)); err != nil {
			return nil, fmt.Errorf("consolidated_metadata: %w", err)
		}
		nodes[path] = budget.spend(parseMember(doc, depth), doc)
	}
	return nodes, nil
}

func checkNotRoot(path string) error {
	if path == "" {
		return checkName(path)
	}
	return nil
}

// parseV2Consolidated parses a .zmetadata document, which holds the documents of all
// nodes of a hierarchy by key. The result is the root of the hierarchy.
func parseV2Consolidated(o *metajson.Object) (*GroupMetadata, error) {
	format := 1 // zarr-python does not look at it
	if _, err := o.DecodeOptional("zarr_consolidated_format", &format); err != nil {
		return nil, err
	}
	if format != 1 {
		return nil, fmt.Errorf("zarr_consolidated_format %d: %w", format, errors.ErrUnsupported)
	}
	var raw json.RawMessage
	if err := o.DecodeRequired("metadata", &raw); err != nil {
		return nil, err
	}
	members, err := metajson.ParseObject(v2ConsolidatedKey, raw)
	if err != nil {
		return nil, err
	}
	root := &GroupMetadata{Format: 2, Attributes: map[string]any{}, Consolidated: map[string]Node{}}
	attributes, budget := map[string]json.RawMessage{}, fillBudget(maxFillBytes)
	for _, key := range members.Keys() {
		document, _ := members.Take(key)
		path, name := splitKey(key)
		if err := checkPath(path); err != nil {
			return nil, fmt.Errorf("%s: %w", v2ConsolidatedKey, err)
		}
		switch {
		case name == v2AttributesKey:
			attributes[path] = document
		case name == v2ArrayKey && path != "": // sorts before .zgroup, which an array does not have
			root.Consolidated[path] = budget.spend(parseV2Member(document, name), document)
		case name == v2GroupKey && path != "" && root.Consolidated[path] == nil:
			root.Consolidated[path] = budget.spend(parseV2Member(document, name), document)
		}
	}
	for path, document := range attributes {
		node := root.Consolidated[path]
		if path == "" {
			node = root
		}
		if err := setV2Attributes(node, document); err != nil && node != nil {
			if path == "" {
				return nil, fmt.Errorf("%s: %w", v2AttributesKey, err)
			}
			root.Consolidated[path] = unreadableV2(metajson.Restore(document), v2AttributesKey, err)
		}
	}
	return root, nil
}

// splitKey splits a key into the path of a node and the name of a document.
func splitKey(key string) (path, name string) {
	i := strings.LastIndexByte(key, '/')
	return key[:max(i, 0)], key[i+1:]
}

// marshalV2Consolidated returns the .zmetadata document.
func (m *GroupMetadata) marshalV2Consolidated() ([]byte, error) {
	all := metajson.Members{}
	add := func(path string, node Node) error {
		if broken, ok := node.(*UnreadableNode); ok {
			if broken.key != "" && broken.isJSON() { // others would make the document malformed
				all = append(all, metajson.Member{Key: joinPath(path, broken.key), Value: broken})
			}
			return nil
		}
		list, err := documents(node)
		if err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
		for _, d := range list {
			if d.key == metadataKey {
				return fmt.Errorf("%q is a node of Zarr v3: %w in consolidated metadata of Zarr v2", path, errors.ErrUnsupported)
			}
			all = append(all, metajson.Member{Key: joinPath(path, d.key), Value: json.RawMessage(d.data)})
		}
		return nil
	}
	root := *m
	root.Consolidated = nil
	if err := add("", &root); err != nil {
		return nil, err
	}
	for _, path := range sortedPaths(m.Consolidated) {
		if err := add(path, m.Consolidated[path]); err != nil {
			return nil, err
		}
	}
	return metajson.Members{{Key: "metadata", Value: all}, {Key: "zarr_consolidated_format", Value: 1}}.MarshalJSON()
}
