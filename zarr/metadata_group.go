package zarr

import (
	"encoding/json"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// GroupMetadata is the metadata document of a group (Zarr core 3.1, "Group metadata").
type GroupMetadata struct {
	// Format is the version of Zarr: 2, 3, or 0 for 3. It determines the documents of
	// the group; see [ArrayMetadata].
	Format int
	// Attributes are user data, as in [ArrayMetadata].
	Attributes map[string]any
	// Consolidated is the metadata of all nodes below the group, keyed by their paths
	// relative to it. It is nil if the group is not consolidated.
	Consolidated map[string]Node
	// Extra holds unknown members of the document. Each value is a JSON object with
	// "must_understand": false. Zarr v2 has none.
	Extra map[string]json.RawMessage
}

func (*GroupMetadata) node() {}

var groupKeys = []string{"zarr_format", "node_type", "attributes", "consolidated_metadata"}

// MarshalJSON writes the document. That of Zarr v2 is .zmetadata if the group is
// consolidated; otherwise it is .zgroup, which has no attributes.
func (m *GroupMetadata) MarshalJSON() ([]byte, error) {
	if err := checkFormat(m.Format); err != nil {
		return nil, err
	}
	if m.Format == 2 {
		return m.marshalV2()
	}
	if err := checkExtra(m.Extra, groupKeys); err != nil {
		return nil, err
	}
	doc := metajson.Members{
		{Key: "zarr_format", Value: 3},
		{Key: "node_type", Value: "group"},
		{Key: "attributes", Value: encodableAttributes(m.Attributes)},
	}
	if m.Consolidated != nil {
		members, err := consolidatedMembers(m.Consolidated)
		if err != nil {
			return nil, err
		}
		doc = append(doc, metajson.Member{Key: "consolidated_metadata", Value: metajson.Members{
			{Key: "kind", Value: "inline"},
			{Key: "must_understand", Value: false},
			{Key: "metadata", Value: members},
		}})
	}
	return append(doc, extraMembers(m.Extra)...).MarshalJSON()
}

func parseGroup(o *metajson.Object, depth int) (*GroupMetadata, error) {
	m := &GroupMetadata{Format: 3}
	var err error
	if m.Attributes, err = parseAttributes(o); err != nil {
		return nil, err
	}
	raw, ok := o.Take("consolidated_metadata")
	if ok && string(raw) != "null" { // zarr-python has written null for no metadata
		if m.Consolidated, err = parseConsolidated(raw, depth+1); err != nil {
			return nil, err
		}
	}
	m.Extra = takeExtra(o)
	return m, checkExtra(m.Extra, groupKeys)
}
