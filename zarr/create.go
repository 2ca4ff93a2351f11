package zarr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Mode says whether opening a node requires, creates or replaces it. The names and the
// meanings are those of zarr-python.
type Mode string

// The modes of [OpenMode] and [OpenGroupMode].
const (
	// ModeRead ("r") opens a node that exists, for reading only.
	ModeRead Mode = "r"
	// ModeUpdate ("r+") opens a node that exists, for reading and writing.
	ModeUpdate Mode = "r+"
	// ModeAppend ("a") opens a node, or creates it if nothing is there.
	ModeAppend Mode = "a"
	// ModeOverwrite ("w") deletes the node and everything below it, and creates it.
	ModeOverwrite Mode = "w"
	// ModeCreate ("w-") creates a node where nothing is.
	ModeCreate Mode = "w-"
)

func (m Mode) check() error {
	switch m {
	case ModeRead, ModeUpdate, ModeAppend, ModeOverwrite, ModeCreate:
		return nil
	}
	return fmt.Errorf("mode %q, want one of r, r+, a, w and w-", string(m))
}

// Create creates an array: [OpenMode] with [ModeCreate].
func Create(ctx context.Context, s store.Store, path string, meta *ArrayMetadata) (*Array, error) {
	return OpenMode(ctx, s, path, ModeCreate, meta)
}

// Open returns the array at path for reading and writing: [OpenMode] with [ModeUpdate].
func Open(ctx context.Context, s store.Store, path string) (*Array, error) {
	return OpenMode(ctx, s, path, ModeUpdate, nil)
}

// OpenMode opens or creates the array at path. Meta describes an array to create and is
// otherwise ignored. Without chunk shape it gets that of [AutoChunks], without codecs
// [DefaultCodecs] and zstd. Missing groups above a new array are created.
//
// It returns an error wrapping store.ErrNotFound if the array must exist but does not,
// and store.ErrExists if it must not but does. The error wraps [ErrNodeType] if a group
// is at path, except with ModeOverwrite and ModeCreate, or an array is above path. It
// wraps errors.ErrUnsupported if the array needs a feature that this package lacks.
func OpenMode(ctx context.Context, s store.Store, path string, mode Mode, meta *ArrayMetadata) (*Array, error) {
	if s == nil {
		return nil, fmt.Errorf("zarr.OpenMode: array %q: %w", path, errNilStore)
	}
	open := func() (*Array, error) {
		node, err := readNode(ctx, s, path)
		if err != nil {
			return nil, err
		}
		a, err := newArrayOfNode(s, path, node)
		if err == nil {
			a.readOnly = mode == ModeRead
		}
		return a, err
	}
	create := func() (*Array, error) {
		if meta == nil {
			return nil, fmt.Errorf("array %q: nil metadata", path)
		}
		own, err := meta.completed()
		if err != nil {
			return nil, fmt.Errorf("array %q: %w", path, err)
		}
		a, err := New(s, path, own)
		if err != nil {
			return nil, err
		}
		return a, createNode(ctx, s, path, mode, a.Metadata())
	}
	a, err := openOrCreate(mode, open, create)
	if err != nil {
		return nil, fmt.Errorf("zarr.OpenMode: mode %q: %w", string(mode), err)
	}
	return a, nil
}

// OpenGroupMode opens or creates the group at path, as [OpenMode] does for arrays. Nil
// metadata is empty. Nodes that are stored below path without a group become members of
// a new group, except with ModeOverwrite, which deletes them.
func OpenGroupMode(ctx context.Context, s store.Store, path string, mode Mode, meta *GroupMetadata) (*Group, error) {
	if s == nil {
		return nil, fmt.Errorf("zarr.OpenGroupMode: group %q: %w", path, errNilStore)
	}
	open := func() (*Group, error) {
		node, err := readNode(ctx, s, path)
		if err != nil {
			return nil, err
		}
		g, err := newGroupOfNode(s, path, node)
		if err == nil {
			g.readOnly = mode == ModeRead
		}
		return g, err
	}
	create := func() (*Group, error) {
		g := &Group{store: s, path: path}
		if meta != nil {
			g.meta = *meta
		}
		return g, createNode(ctx, s, path, mode, &g.meta)
	}
	g, err := openOrCreate(mode, open, create)
	if err != nil {
		return nil, fmt.Errorf("zarr.OpenGroupMode: mode %q: %w", string(mode), err)
	}
	return g, nil
}

func openOrCreate[T any](mode Mode, open, create func() (*T, error)) (*T, error) {
	if err := mode.check(); err != nil {
		return nil, err
	}
	var node *T
	var err error
	switch mode {
	case ModeRead, ModeUpdate:
		node, err = open()
	case ModeAppend:
		if node, err = open(); errors.Is(err, store.ErrNotFound) {
			node, err = create()
		}
	default:
		node, err = create()
	}
	if err != nil {
		return nil, err // not a node that create has returned beside an error
	}
	return node, nil
}

func newArrayOfNode(s store.Store, path string, node Node) (*Array, error) {
	meta, err := nodeAs[*ArrayMetadata](node)
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", path, err)
	}
	return New(s, path, meta)
}

// CreateGroup creates a group: [OpenGroupMode] with [ModeCreate]. Nil metadata is empty.
func CreateGroup(ctx context.Context, s store.Store, path string, meta *GroupMetadata) (*Group, error) {
	return OpenGroupMode(ctx, s, path, ModeCreate, meta)
}

// OpenGroup returns the group at path for reading and writing: [OpenGroupMode] with
// [ModeUpdate].
func OpenGroup(ctx context.Context, s store.Store, path string) (*Group, error) {
	return OpenGroupMode(ctx, s, path, ModeUpdate, nil)
}

// createNode writes the metadata of a new node, after the groups above it that are
// missing.
func createNode(ctx context.Context, s store.Store, path string, mode Mode, node Node) error {
	if err := checkNewPath(path, node); err != nil {
		return err
	}
	list, err := documents(node) // before anything changes
	if err != nil {
		return fmt.Errorf("metadata of %q: %w", path, err)
	}
	missing, err := missingParents(ctx, s, path)
	if err != nil {
		return err
	}
	if mode == ModeOverwrite {
		if err := store.DeleteAll(ctx, s, path); err != nil {
			return fmt.Errorf("deleting node %q: %w", path, err)
		}
	} else if old, err := readNode(ctx, s, path); err == nil {
		return fmt.Errorf("node %q is %s: %w", path, kindOf(old), store.ErrExists)
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, parent := range missing {
		if err := writeNode(ctx, s, parent, &GroupMetadata{Format: formatOf(node)}); err != nil {
			return err
		}
	}
	if mode == ModeOverwrite {
		return setDocuments(ctx, s, path, list)
	}
	// Of two programs that create the node at once, only one may succeed.
	err = store.SetIfNotExists(ctx, s, joinPath(path, list[0].key), list[0].data)
	switch {
	case err == nil:
		return setDocuments(ctx, s, path, list[1:])
	case errors.Is(err, errors.ErrUnsupported):
		return setDocuments(ctx, s, path, list)
	case errors.Is(err, store.ErrExists):
		err = fmt.Errorf("node %q: %w", path, err)
	}
	return err
}

// missingParents returns the paths above a path that have no node. It returns an error
// wrapping [ErrNodeType] if an array is above.
func missingParents(ctx context.Context, s store.Store, path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	parents := []string{""}
	for at, c := range path {
		if c == '/' {
			parents = append(parents, path[:at])
		}
	}
	var missing []string
	for _, parent := range parents {
		node, err := readNode(ctx, s, parent)
		switch {
		case errors.Is(err, store.ErrNotFound):
			missing = append(missing, parent)
		case err != nil:
			return nil, err
		case kindOf(node) == "an array":
			return nil, fmt.Errorf("node %q: an array is above it, at %q: %w", path, parent, ErrNodeType)
		}
	}
	return missing, nil
}

// kindOf returns what a node is, for error messages: "a group", "an array" or, for
// metadata that does not say, "a node".
func kindOf(node Node) string {
	switch node := node.(type) {
	case *GroupMetadata:
		return "a group"
	case *ArrayMetadata:
		return "an array"
	case *UnreadableNode:
		var doc struct {
			Kind string `json:"node_type"`
		}
		_ = json.Unmarshal(metajson.Clean(node.Raw), &doc) // a malformed document says nothing
		switch {
		case doc.Kind == "array" || node.key == v2ArrayKey:
			return "an array"
		case doc.Kind == "group" || node.key == v2GroupKey:
			return "a group"
		}
	}
	return "a node"
}

// WriteNode writes the metadata document of a node and nothing else: it replaces an
// earlier document, keeps what is stored below path and does not look at the nodes
// above. Programs that write chunks first make an array visible with it.
func WriteNode(ctx context.Context, s store.Store, path string, node Node) error {
	if s == nil {
		return fmt.Errorf("zarr.WriteNode: node %q: %w", path, errNilStore)
	}
	if err := checkNewPath(path, node); err != nil {
		return err
	}
	return writeNode(ctx, s, path, node)
}

// completed returns the metadata with a chunk shape and codecs. It returns an error if the
// codecs do not restore the fill value.
func (m *ArrayMetadata) completed() (*ArrayMetadata, error) {
	c := *m
	if c.ChunkShape == nil && c.ChunkRuns == nil {
		c.ChunkShape = AutoChunks(c.Shape, c.DataType)
	}
	if c.Codecs == nil {
		c.Codecs = DefaultCodecs(c.DataType, codec.Zstd{})
	}
	if c.Format == 2 {
		c.ChunkKeyEncoding.V2 = true
		return &c, nil
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	codecs, err := c.Codecs.Complete(codec.ChunkSpec{Type: c.DataType, Shape: c.ChunkShape, Fill: c.fillValue()})
	c.Codecs = codecs
	return &c, err
}
