package docs

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview"
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
		dtype, order, err := ndview.ParseDType(cells[1])
		require.NoError(t, err, row)
		if cells[0] != "record" {
			assert.Equal(t, cells[0], dtype.String())
		}
		assert.Equal(t, cells[1], dtype.NumPyIn(order))
		assert.Equal(t, cells[2:6], []string{orDash(dtype.ZarrName()), arrowName(dtype), dlpackName(dtype), orDash(dtype.CName())}, row)
	}
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
