package zarr

import (
	"encoding/json"
	"errors"
	"slices"
)

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

// parseMember reads the metadata of a node as a member of a group.
func parseMember(raw []byte, depth int) (Node, error) {
	node, err := parseNode(raw, depth)
	if errors.Is(err, errors.ErrUnsupported) {
		return &UnsupportedNode{Raw: slices.Clone(raw), Err: err}, nil
	}
	return node, err
}
