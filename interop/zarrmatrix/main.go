// Command zarrmatrix copies Zarr arrays for interop/zarrmatrix.py.
//
//	go run ./interop/zarrmatrix SOURCE COPY ELEMENTS
//
// It reads every array of the folder SOURCE, which is a group of either version of Zarr.
// It writes the elements to the file NAME in ELEMENTS: their bytes in C order, or a JSON
// list of base64 if they have variable length. Then it writes the array with the same
// metadata to COPY: the elements of the array NAME.input if there is one. Groups are copied
// with all members, without files of elements, and consolidated if they were. What is of Zarr v2 is also copied to the folder v3 in COPY as
// it is, and then migrated to Zarr v3, unless v3 lacks something that it uses. It prints
// {name: error} as JSON, where "" means success.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	_ "github.com/quiver-gpu/quiver/zarr/codec/pcodec" // registers the codec
	_ "github.com/quiver-gpu/quiver/zarr/codec/zfpy"   // registers the codec
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

func main() {
	results, err := copyAll(context.Background(), os.Args[1], os.Args[2], os.Args[3])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(results)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func copyAll(ctx context.Context, source, to, elements string) (map[string]string, error) {
	from := store.NewLocal(source)
	_, names, err := store.ListDir(ctx, from, "")
	if err != nil {
		return nil, err
	}
	results := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, ".input") {
			continue
		}
		results[name] = ""
		err := copyArray(ctx, from, store.NewLocal(to), name, filepath.Join(elements, name))
		if errors.Is(err, zarr.ErrNodeType) {
			err = copyGroup(ctx, from, store.NewLocal(to), name)
		}
		if err == nil {
			err = migrate(ctx, from, store.NewLocal(filepath.Join(to, "v3")), name)
		}
		if err != nil {
			results[name] = err.Error()
		}
	}
	return results, nil
}

// migrate copies a node of Zarr v2, and replaces its metadata by that of Zarr v3.
func migrate(ctx context.Context, from, to store.Store, name string) error {
	if _, err := store.Size(ctx, from, name+"/zarr.json"); err == nil {
		return nil
	}
	if err := store.Copy(ctx, to, from, name); err != nil {
		return err
	}
	err := zarr.MigrateToV3(ctx, to, name)
	if errors.Is(err, errors.ErrUnsupported) {
		return store.DeleteAll(ctx, to, name)
	}
	if err != nil {
		return err
	}
	return zarr.RemoveMetadata(ctx, to, name, 2)
}

func copyGroup(ctx context.Context, from, to store.Store, path string) error {
	g, err := zarr.OpenGroup(ctx, from, path)
	if err != nil {
		return err
	}
	meta := *g.Metadata()
	meta.Consolidated = nil
	out, err := zarr.CreateGroup(ctx, to, path, &meta)
	if err != nil {
		return err
	}
	children, err := g.Children(ctx)
	if err != nil {
		return err
	}
	for _, child := range children {
		below := path + "/" + child.Name
		switch node := child.Node.(type) {
		case *zarr.GroupMetadata:
			err = copyGroup(ctx, from, to, below)
		case *zarr.ArrayMetadata:
			err = copyArray(ctx, from, to, below, os.DevNull)
		case *zarr.UnreadableNode:
			err = node.Err
		}
		if err != nil {
			return err
		}
	}
	if g.Metadata().Consolidated == nil {
		return nil
	}
	return out.Consolidate(ctx)
}

// copyArray copies an array, and writes its elements to a file.
func copyArray(ctx context.Context, from, to store.Store, name, file string) error {
	a, err := zarr.Open(ctx, from, name)
	if err != nil {
		return err
	}
	values, err := a.Read(ctx, zarr.Prototype{}, 1)
	if err != nil {
		return err
	}
	defer values.Release()
	raw, err := encode(values)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, raw, 0o666); err != nil {
		return err
	}
	out, err := zarr.Create(ctx, to, name, a.Metadata())
	if err != nil {
		return err
	}
	input, err := zarr.Open(ctx, from, name+".input")
	if errors.Is(err, store.ErrNotFound) {
		return out.Write(ctx, values, 1)
	}
	if err != nil {
		return err
	}
	given, err := input.Read(ctx, zarr.Prototype{}, 1)
	if err != nil {
		return err
	}
	defer given.Release()
	return out.Write(ctx, given, 1)
}

func encode(values element.Values) ([]byte, error) {
	switch v := values.(type) {
	case *element.VLen:
		return json.Marshal(v.Elements())
	default:
		return v.(*ndview.NDBuffer).Bytes()
	}
}
