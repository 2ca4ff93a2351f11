package docs

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
)

var note = regexp.MustCompile(` \(\d\)$`)

func TestTheTableOfTypesIsWhatTheCodeSays(t *testing.T) {
	text, err := os.ReadFile("dtypes.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "|---|---|---|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	require.Len(t, rows, 21)
	for _, row := range rows {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(row, "| "), `\|`, "¦"), " | ")
		require.Len(t, cells, 7, row)
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(strings.Trim(note.ReplaceAllString(cell, ""), "`"), "¦", "|")
		}
		of, order, err := ndview.ParseDType(cells[1])
		require.NoError(t, err, row)
		if cells[0] != "record" {
			assert.Equal(t, cells[0], of.String())
		}
		assert.Equal(t, cells[1], of.NumPyIn(order))
		assert.Equal(t, cells[6], goNames(of), row)
		assert.Equal(t, cells[2:6], []string{orDash(of.ZarrName()), arrowName(of), dlpackName(of), orDash(of.CName())}, row)
	}
}

// goNames returns the Go type of the elements, or a dash if none is one.
func goNames(of ndview.DType) string {
	for _, g := range []reflect.Type{reflect.TypeFor[bool](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
		reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](), reflect.TypeFor[float16.Num](),
		reflect.TypeFor[dtype.BFloat16Num](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[complex64](), reflect.TypeFor[complex128]()} {
		if dtype.CheckGoType(of, g) == nil {
			return g.String()
		}
	}
	return "-"
}

func orDash(name string, err error) string {
	if err != nil {
		return "-"
	}
	return name
}

func arrowName(t ndview.DType) string {
	as, err := t.Arrow()
	if err != nil {
		return "-"
	}
	return as.String()
}

func dlpackName(t ndview.DType) string {
	code, bits, _, err := t.DLPack()
	if err != nil {
		return "-"
	}
	return fmt.Sprintf("%d, %d", code, bits)
}
