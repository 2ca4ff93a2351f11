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

// GroupMetadata is the metadata document of a group.
type GroupMetadata struct {
	// Attributes are the user's: anything that encoding/json writes. Numbers
	// are read as json.Number.
	Attributes map[string]any
	// Consolidated is the metadata of all nodes below the group, by their
	// paths from it; nil for a group that is not consolidated.
	Consolidated map[string]Node
	// Extra are further keys of the document. Each value is an object with
	// "must_understand": false.
	Extra map[string]json.RawMessage
}

func (*GroupMetadata) node() {}

var groupKeys = []string{"zarr_format", "node_type", "attributes", "consolidated_metadata"}

// MarshalJSON writes the document.
func (m *GroupMetadata) MarshalJSON() ([]byte, error) {
	if err := checkExtra(m.Extra, groupKeys); err != nil {
		return nil, err
	}
	doc := metajson.Members{
		{Key: "zarr_format", Value: 3},
		{Key: "node_type", Value: "group"},
		{Key: "attributes", Value: attributes(m.Attributes)},
	}
	if m.Consolidated != nil {
		doc = append(doc, metajson.Member{Key: "consolidated_metadata", Value: metajson.Members{
			{Key: "kind", Value: "inline"},
			{Key: "must_understand", Value: false},
			{Key: "metadata", Value: consolidated(m.Consolidated)},
		}})
	}
	return append(doc, extra(m.Extra)...).MarshalJSON()
}

// consolidated orders nodes by depth, then by path.
func consolidated(nodes map[string]Node) metajson.Members {
	paths := slices.SortedFunc(maps.Keys(nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	members := metajson.Members{} // {}, never null
	for _, path := range paths {
		members = append(members, metajson.Member{Key: path, Value: nodes[path]})
	}
	return members
}

func parseGroup(o *metajson.Object, depth int) (*GroupMetadata, error) {
	m := new(GroupMetadata)
	var err error
	if m.Attributes, err = parseAttributes(o); err != nil {
		return nil, err
	}
	raw, ok := o.Take("consolidated_metadata")
	if ok && string(raw) != "null" { // which zarr-python has written for none
		if m.Consolidated, err = parseConsolidated(raw, depth+1); err != nil {
			return nil, err
		}
	}
	m.Extra = rest(o)
	return m, checkExtra(m.Extra, groupKeys)
}

// mostConsolidated bounds how deep consolidated metadata may nest, each level of which is
// read as many times as there are levels around it. Those of real groups are flat.
const mostConsolidated = 16

func parseConsolidated(raw json.RawMessage, depth int) (map[string]Node, error) {
	if depth > mostConsolidated {
		return nil, fmt.Errorf("consolidated_metadata nests deeper than %d", mostConsolidated)
	}
	o, err := metajson.ParseObject("consolidated_metadata", raw)
	if err != nil {
		return nil, err
	}
	var kind string
	if err := o.Need("kind", &kind); err != nil {
		return nil, err
	}
	if kind != "inline" {
		return nil, fmt.Errorf("consolidated_metadata of kind %q: %w", kind, errors.ErrUnsupported)
	}
	var must bool
	if _, err := o.Maybe("must_understand", &must); err != nil {
		return nil, err
	}
	var members json.RawMessage
	if err := o.Need("metadata", &members); err != nil {
		return nil, err
	}
	if err := o.Done(); err != nil {
		return nil, err
	}
	docs, err := metajson.ParseObject("consolidated_metadata", members)
	if err != nil {
		return nil, err
	}
	nodes := map[string]Node{}
	for _, path := range docs.Keys() {
		doc, _ := docs.Take(path)
		if err := errors.Join(checkNotRoot(path), checkPath(path)); err != nil {
			return nil, fmt.Errorf("consolidated_metadata: %w", err)
		}
		if nodes[path], err = parseMember(doc, depth); err != nil {
			return nil, fmt.Errorf("consolidated_metadata: %q: %w", path, err)
		}
	}
	return nodes, nil
}

func checkNotRoot(path string) error {
	if path == "" {
		return CheckName(path)
	}
	return nil
}
