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

// consolidatedMembers orders nodes by depth, then by path.
func consolidatedMembers(nodes map[string]Node) metajson.Members {
	paths := slices.SortedFunc(maps.Keys(nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	members := metajson.Members{} // encodes as {}, not null
	for _, path := range paths {
		if n, ok := nodes[path].(*UnreadableNode); ok && !n.isJSON() {
			continue // would make the whole document malformed
		}
		members = append(members, metajson.Member{Key: path, Value: nodes[path]})
	}
	return members
}

// maxConsolidatedDepth bounds the nesting of consolidated metadata. Parsing takes time
// quadratic in the depth, and documents in use are flat.
const maxConsolidatedDepth = 16

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
	if err := o.CheckEmpty(); err != nil {
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
		nodes[path] = parseMember(doc, depth)
	}
	return nodes, nil
}

func checkNotRoot(path string) error {
	if path == "" {
		return CheckName(path)
	}
	return nil
}
