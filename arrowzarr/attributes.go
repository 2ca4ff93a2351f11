package arrowzarr

import (
	"bytes"
	"encoding/base64"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Attribute names. Those of the anndata on-disk format
// (encoding-type, encoding-version, ordered, na-value, column-order) mean what
// they mean there.
const (
	attrSchema  = "arrow_schema" // base64 of the schema as an encapsulated IPC message
	attrRows    = "num_rows"
	attrType    = "arrow_type" // the Arrow type, for people
	attrOrder   = "column-order"
	attrEncType = "encoding-type"
	attrEncVer  = "encoding-version"
)

// rootAttributes are those of the group of all columns.
func rootAttributes(schema *arrow.Schema, columns []*column, rows int64) (map[string]any, error) {
	message, err := schemaMessage(schema)
	if err != nil {
		return nil, fmt.Errorf("writing the Arrow schema: %w", err)
	}
	order := make([]string, len(columns))
	for i, c := range columns {
		order[i] = c.name
	}
	return map[string]any{
		attrSchema: base64.StdEncoding.EncodeToString(message),
		attrRows:   rows,
		attrOrder:  order,
	}, nil
}

// schemaMessage is the schema as Arrow's IPC format encapsulates it: what a
// stream starts with, and what Parquet files keep under ARROW:schema.
func schemaMessage(schema *arrow.Schema) ([]byte, error) {
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(schema), ipc.WithAllocator(memory.DefaultAllocator))
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// attributes are those of a column's node: an array, or, where values are
// missing, a group of arrays.
func (c *column) attributes(missing bool) map[string]any {
	attrs := map[string]any{attrType: c.field.Type.String()}
	switch t := c.kind.(type) {
	case *arrow.TimestampType:
		if t.TimeZone != "" {
			attrs["timezone"] = t.TimeZone
		}
	case arrow.DecimalType:
		attrs["precision"], attrs["scale"] = t.GetPrecision(), t.GetScale()
	case *arrow.DictionaryType:
		attrs["ordered"] = t.Ordered
	}
	if c.tensor != nil && len(c.tensor.Permutation()) > 0 {
		attrs["permutation"] = c.tensor.Permutation()
	}
	if encoding, version := c.encoding(missing); encoding != "" {
		attrs[attrEncType], attrs[attrEncVer] = encoding, version
		if encoding == "nullable-string-array" {
			attrs["na-value"] = "NA"
		}
	}
	return attrs
}

// encoding is anndata's name for the column's layout, or "" where it has none.
func (c *column) encoding(missing bool) (name, version string) {
	id := c.kind.ID()
	switch {
	case c.form == formDictionary:
		return "categorical", "0.2.0"
	case c.form == formText && missing:
		return "nullable-string-array", "0.1.0"
	case c.form == formText:
		return "string-array", "0.2.0"
	case c.form == formFixed && !missing && isPlainArray(id):
		return "array", "0.2.0"
	case missing && id == arrow.BOOL:
		return "nullable-boolean", "0.1.0"
	case missing && arrow.IsInteger(id):
		return "nullable-integer", "0.1.0"
	}
	return "", ""
}

// isPlainArray tells whether anndata's "array" covers values of the type: those
// that its readers know, which times and decimals are not.
func isPlainArray(id arrow.Type) bool {
	return id == arrow.BOOL || arrow.IsInteger(id) || arrow.IsFloating(id) || id == arrow.FIXED_SIZE_LIST
}
