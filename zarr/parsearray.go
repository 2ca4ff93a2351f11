package zarr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// arrayKeys are the keys that an array's document can have.
var arrayKeys = []string{"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding",
	"fill_value", "codecs", "attributes", "dimension_names", "storage_transformers"}

func parseArray(o *metajson.Object) (*ArrayMetadata, error) {
	m := new(ArrayMetadata)
	var transformers []json.RawMessage
	if _, err := o.Maybe("storage_transformers", &transformers); err != nil {
		return nil, err
	}
	if len(transformers) > 0 {
		return nil, fmt.Errorf("storage_transformers: %w", errors.ErrUnsupported)
	}
	var chunkGrid, fill json.RawMessage
	for _, field := range []struct {
		key string
		dst any
	}{
		{"shape", &m.Shape},
		{"data_type", &m.DataType},
		{"chunk_grid", &chunkGrid},
		{"chunk_key_encoding", &m.ChunkKeys},
		{"fill_value", &fill},
		{"codecs", &m.Codecs},
	} {
		if err := o.Need(field.key, field.dst); err != nil {
			return nil, err
		}
	}
	var err error
	if m.ChunkShape, err = parseGrid(chunkGrid); err != nil {
		return nil, err
	}
	if m.FillValue, err = m.DataType.ParseFill(fill); err != nil {
		return nil, err
	}
	if m.Attributes, err = parseAttributes(o); err != nil {
		return nil, err
	}
	if m.DimensionNames, err = parseNames(o); err != nil {
		return nil, err
	}
	m.Extra = rest(o)
	return m, m.Check()
}

func parseGrid(raw json.RawMessage) ([]int64, error) {
	ext, err := metajson.ParseExtension("chunk_grid", raw)
	if err != nil {
		return nil, err
	}
	if !ext.MustUnderstand {
		return nil, fmt.Errorf("chunk_grid %q: must_understand cannot be false", ext.Name)
	}
	if ext.Name != "regular" {
		return nil, fmt.Errorf("chunk_grid %q: %w", ext.Name, errors.ErrUnsupported)
	}
	var shape []int64
	if err := ext.Config.Need("chunk_shape", &shape); err != nil {
		return nil, err
	}
	return shape, ext.Config.Done()
}

// parseAttributes gives a map even where there is none in the document.
func parseAttributes(o *metajson.Object) (map[string]any, error) {
	attributes := map[string]any{}
	_, err := o.Maybe("attributes", &attributes)
	return attributes, err
}

// parseNames takes null, which zarr-python has written, for no names at all.
func parseNames(o *metajson.Object) ([]string, error) {
	raw, ok := o.Take("dimension_names")
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	var given []*string
	if err := metajson.Decode("dimension_names", raw, &given); err != nil {
		return nil, err
	}
	names := make([]string, len(given))
	for i, name := range given {
		if name != nil {
			names[i] = *name
		}
	}
	return names, nil
}

// rest is what nobody took, each value on one line.
func rest(o *metajson.Object) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	for _, key := range o.Keys() {
		raw, _ := o.Take(key)
		var line bytes.Buffer
		_ = json.Compact(&line, raw) // it was parsed before
		if fields == nil {
			fields = map[string]json.RawMessage{}
		}
		fields[key] = line.Bytes()
	}
	return fields
}
