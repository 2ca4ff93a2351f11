// Command zarrops does operations on a Zarr hierarchy for interop/zarrops.py.
//
//	go run ./interop/zarrops FOLDER
//
// It reads one operation per line from standard input, as JSON, and writes its outcome
// as one line of JSON: {"error": kind, "text": message} or {"result": value}.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// operation is a line of the input. Op determines which other members count.
type operation struct {
	Op, Path, To, Mode string
	Format, Depth      int
	Array              *arraySpec
	Nodes              map[string]*arraySpec // nil for a group
	Attributes         map[string]any
	Sharded, Empty     bool
	Most               int64
	Shape              []int64
	Axis               int
	Views              []selection // each selects from the one before
	Values             []int32
}

// arraySpec describes an array of int32.
type arraySpec struct {
	Codecs                []string // compressors, by name
	Order                 []int    // of a transpose, if not nil
	Start                 bool     // of the index of a shard
	Shape, Chunks, Shards []int64
	Edges                 [][]int64 // of a rectilinear grid
	Fill                  int32
}

type selection struct {
	Kind   string
	Keys   []key
	Points [][]int64
	Mask   []bool
	Shape  []int64
}

type key struct {
	Ellipsis bool
	At       *int64
	Slice    []*int64
	List     []int64
	Mask     []bool
}

func (k key) key() zarr.Key {
	bound := func(p *int64) int64 {
		if p == nil {
			return ndview.Open
		}
		return *p
	}
	switch {
	case k.Ellipsis:
		return zarr.Ellipsis
	case k.At != nil:
		return zarr.At(*k.At)
	case k.Slice != nil:
		return zarr.SpanStep(bound(k.Slice[0]), bound(k.Slice[1]), bound(k.Slice[2]))
	case k.Mask != nil:
		return zarr.Where(k.Mask...)
	default:
		return zarr.List(k.List...)
	}
}

func (s selection) selection() zarr.Selection {
	keys := make([]zarr.Key, len(s.Keys))
	for i, k := range s.Keys {
		keys[i] = k.key()
	}
	switch s.Kind {
	case "points":
		return zarr.Points(s.Points...).Shaped(s.Shape...)
	case "mask":
		return zarr.Mask(s.Mask, s.Shape...)
	case "blocks":
		return zarr.Blocks(keys...)
	default:
		return zarr.Select(keys...)
	}
}

func (a *arraySpec) metadata(format int) *zarr.ArrayMetadata {
	of := element.Of(ndview.Int32)
	fill := []byte{byte(a.Fill), byte(a.Fill >> 8), byte(a.Fill >> 16), byte(a.Fill >> 24)}
	m := &zarr.ArrayMetadata{Format: format, Shape: a.Shape, DataType: of, ChunkShape: a.Chunks, FillValue: fill, Codecs: zarr.DefaultCodecs(of)}
	for _, name := range a.Codecs {
		m.Codecs = append(m.Codecs, map[string]codec.Codec{"zstd": codec.Zstd{Level: 1}, "gzip": codec.Gzip{Level: 1}, "crc32c": codec.CRC32C{}}[name])
	}
	if a.Order != nil {
		m.Codecs = append(codec.List{codec.Transpose{Order: a.Order}}, m.Codecs...)
	}
	if a.Shards != nil {
		shards := codec.Sharding{ChunkShape: a.Chunks, Codecs: m.Codecs}
		if a.Start {
			shards.IndexLocation = codec.Start
		}
		m.ChunkShape, m.Codecs = a.Shards, codec.List{shards}
	}
	if a.Edges != nil {
		m.ChunkShape = nil
		for _, axis := range a.Edges {
			var runs []zarr.ChunkRun
			for _, n := range axis {
				runs = append(runs, zarr.ChunkRun{Size: n, Count: 1})
			}
			m.ChunkRuns = append(m.ChunkRuns, runs)
			m.ChunkShape = append(m.ChunkShape, slices.Max(axis))
		}
	}
	return m
}

var kinds = []struct {
	err  error
	kind string
}{
	{store.ErrNotFound, "missing"}, {store.ErrExists, "exists"}, {zarr.ErrNodeType, "type"}, {zarr.ErrInvalidName, "name"},
	{store.ErrReadOnly, "read-only"}, {zarr.ErrSelection, "selection"}, {arrowbuf.ErrOutOfRange, "bounds"},
}

func main() {
	s := store.NewLocal(os.Args[1])
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		var op operation
		if err := json.Unmarshal(in.Bytes(), &op); err != nil {
			log.Fatal(err)
		}
		result, err := op.do(context.Background(), s)
		outcome := map[string]any{"result": result}
		if err != nil {
			outcome = map[string]any{"error": "other", "text": err.Error()}
			for _, k := range kinds {
				if errors.Is(err, k.err) {
					outcome["error"] = k.kind
					break
				}
			}
		}
		if err := out.Encode(outcome); err != nil {
			log.Fatal(err)
		}
	}
	if err := in.Err(); err != nil {
		log.Fatal(err)
	}
}

func (op operation) do(ctx context.Context, s store.Store) (any, error) {
	mode := zarr.Mode(cmp.Or(op.Mode, "r+"))
	switch op.Op {
	case "open group":
		_, err := zarr.OpenGroupMode(ctx, s, op.Path, mode, &zarr.GroupMetadata{Format: op.Format})
		return nil, err
	case "open array":
		_, err := zarr.OpenMode(ctx, s, op.Path, mode, op.Array.metadata(op.Format))
		return nil, err
	case "create_hierarchy":
		nodes := map[string]zarr.Node{}
		for path, a := range op.Nodes {
			if a == nil {
				nodes[path] = &zarr.GroupMetadata{Format: op.Format}
			} else {
				nodes[path] = a.metadata(op.Format)
			}
		}
		return nil, zarr.CreateHierarchy(ctx, s, op.Path, nodes)
	case "resize", "append", "read", "write", "stored":
		a, err := zarr.Open(ctx, s, op.Path)
		if err != nil {
			return nil, err
		}
		return op.onArray(ctx, a)
	}
	g, err := zarr.OpenGroup(ctx, s, "")
	if err != nil {
		return nil, err
	}
	return op.onRoot(ctx, g)
}

func (op operation) onRoot(ctx context.Context, g *zarr.Group) (result any, err error) {
	switch op.Op {
	case "create_group":
		_, err = g.CreateGroup(ctx, op.Path, nil)
	case "create_array":
		_, err = g.CreateArray(ctx, op.Path, op.Array.metadata(0))
	case "require_group":
		_, err = g.RequireGroup(ctx, op.Path)
	case "require_array":
		_, err = g.RequireArray(ctx, op.Path, op.Array.metadata(0))
	case "delete":
		err = g.Delete(ctx, op.Path)
	case "move":
		err = g.Move(ctx, op.Path, op.To)
	case "contains":
		return g.Contains(ctx, op.Path)
	case "consolidate":
		return consolidated(ctx, g)
	case "members":
		return members(ctx, g, op.Depth)
	case "update_attributes", "set_attributes":
		return op.attributes(ctx, g)
	case "auto_chunks":
		of := element.Of(ndview.Int32)
		if op.Sharded && op.Most > 0 {
			shard, chunk := zarr.AutoShardsOf(op.Shape, of, op.Most)
			return []any{shard, chunk}, nil
		}
		if op.Sharded {
			shard, chunk := zarr.AutoShards(op.Shape, of)
			return []any{shard, chunk}, nil
		}
		chunk := zarr.AutoChunks(op.Shape, of)
		return []any{chunk, chunk}, nil
	default:
		err = fmt.Errorf("unknown operation %q", op.Op)
	}
	return nil, err
}

// attributes updates or sets the attributes of a node and returns them.
func (op operation) attributes(ctx context.Context, g *zarr.Group) (any, error) {
	inner := g
	var err error
	if op.Path != "" {
		inner, err = g.OpenGroup(ctx, op.Path)
	}
	if errors.Is(err, zarr.ErrNodeType) {
		a, err := g.OpenArray(ctx, op.Path)
		if err != nil {
			return nil, err
		}
		change := a.UpdateAttributes
		if op.Op == "set_attributes" {
			change = a.SetAttributes
		}
		err = change(ctx, op.Attributes)
		return a.Metadata().Attributes, err
	}
	if err != nil {
		return nil, err
	}
	change := inner.UpdateAttributes
	if op.Op == "set_attributes" {
		change = inner.SetAttributes
	}
	err = change(ctx, op.Attributes)
	return inner.Metadata().Attributes, err
}

// consolidated returns the members that consolidated metadata has, which it removes again.
func consolidated(ctx context.Context, g *zarr.Group) (any, error) {
	if err := g.Consolidate(ctx); err != nil {
		return nil, err
	}
	all, err := members(ctx, g, 0)
	if err != nil {
		return nil, err
	}
	return all, g.Unconsolidate(ctx)
}

func members(ctx context.Context, g *zarr.Group, depth int) (any, error) {
	out := map[string]any{}
	for child, err := range g.Members(ctx, depth) {
		if err != nil {
			return nil, err
		}
		switch node := child.Node.(type) {
		case *zarr.ArrayMetadata:
			out[child.Name] = node.Shape
		case *zarr.UnreadableNode:
			return nil, node.Err
		default:
			out[child.Name] = "group"
		}
	}
	return out, nil
}

func (op operation) onArray(ctx context.Context, a *zarr.Array) (any, error) {
	values := func() (*ndview.NDBuffer, error) {
		return ndview.FromHost(arrowbuf.CPU(), ndview.Int32, op.Values, op.Shape...)
	}
	switch op.Op {
	case "resize":
		return nil, a.Resize(ctx, op.Shape...)
	case "append":
		v, err := values()
		if err != nil {
			return nil, err
		}
		defer v.Release()
		return a.Append(ctx, v, op.Axis, 1)
	case "stored":
		info, err := a.Info(ctx)
		if err != nil {
			return nil, err
		}
		return []any{info.Bytes, info.StoredChunks, info.Chunks, info.StoredBytes}, nil
	}
	a.WriteEmptyChunks = op.Empty
	view, err := a.View(op.Views[0].selection())
	for _, s := range op.Views[1:] {
		if err != nil {
			break
		}
		view, err = view.View(s.selection())
	}
	if err != nil {
		return nil, err
	}
	if op.Op == "write" {
		if op.Shape == nil {
			return nil, view.Write(ctx, op.Values[0], 1)
		}
		v, err := values()
		if err != nil {
			return nil, err
		}
		defer v.Release()
		return nil, view.Write(ctx, v, 1)
	}
	v, err := view.Read(ctx, zarr.Prototype{}, 1)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	raw, err := v.(*ndview.NDBuffer).Bytes()
	return []any{v.Shape(), base64.StdEncoding.EncodeToString(raw)}, err
}
