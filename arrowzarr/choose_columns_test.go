package arrowzarr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// named returns a table of one row of columns with these names.
func named(tb testing.TB, names ...string) tabletest.Table {
	fields, columns := make([]arrow.Field, len(names)), make([]arrow.Array, len(names))
	for i, name := range names {
		columns[i] = tabletest.FromJSON(tb, arrow.PrimitiveTypes.Int64, fmt.Sprintf("[%d]", i))
		fields[i] = arrow.Field{Name: name, Type: columns[i].DataType()}
	}
	return tabletest.New(fields, columns)
}

func TestColumnsAreChosenByNamesAndPatterns(t *testing.T) {
	whole := named(t, "a", "ab", "abc", "a*", "b/c", "[x", "a")
	input := inputFile(t, whole.File(t))
	for name, test := range map[string]struct {
		columns, exclude []string
		want             []int
	}{
		"all":                      {nil, nil, []int{0, 1, 2, 3, 4, 5, 6}},
		"a name of two":            {[]string{"a"}, nil, []int{0, 6}},
		"a pattern":                {[]string{"ab*"}, nil, []int{1, 2}},
		"one character":            {[]string{"a?"}, nil, []int{1, 3}},
		"a class":                  {[]string{"[a-b]b"}, nil, []int{1}},
		"a name with a star":       {[]string{"a*"}, nil, []int{3}},
		"an escaped star":          {[]string{`?\*`}, nil, []int{3}},
		"a name that is malformed": {[]string{"[x"}, nil, []int{5}},
		"a star stops at a slash":  {[]string{"*"}, nil, []int{0, 1, 2, 3, 5, 6}},
		"a slash":                  {[]string{"*/*"}, nil, []int{4}},
		"several in any order":     {[]string{"abc", "a?"}, nil, []int{1, 2, 3}},
		"excluded":                 {nil, []string{"a", "*/c"}, []int{1, 2, 3, 5}},
		"excluded of the chosen":   {[]string{"ab*"}, []string{"ab"}, []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			output, report := convertFile(t, input, arrowzarr.Options{Columns: test.columns, Exclude: test.exclude})
			assert.Equal(t, len(test.want), report.Columns)
			requireTable(t, whole.Choose(test.want...), output)
		})
	}
}

// withoutForm returns a table of a good column and two whose types have no Zarr form.
func withoutForm(tb testing.TB) tabletest.Table {
	tb.Helper()
	bad := tensors(tb, `{"shape": [7]}`, 6, `[[1, 2, 3, 4, 5, 6]]`)
	first, second := bad.Schema.Field(0), bad.Schema.Field(0)
	first.Name, second.Name = "first", "second"
	fields := []arrow.Field{first, {Name: "good", Type: arrow.PrimitiveTypes.Int64}, second}
	column := bad.Batches[0].Column(0)
	return tabletest.New(fields, []arrow.Array{column, tabletest.FromJSON(tb, arrow.PrimitiveTypes.Int64, "[7]"), column})
}

func TestEveryProblemOfTheColumnsIsNamedAtOnce(t *testing.T) {
	input := inputFile(t, withoutForm(t).File(t))
	message := refuse(t, arrowzarr.PartInput, input, arrowzarr.Options{})
	assert.Len(t, strings.Split(message, "\n"), 2)
	for _, want := range []string{`column "first" of type`, `column "second" of type`} {
		assert.Contains(t, message, want)
	}
	message = refuse(t, arrowzarr.PartUsage, input, arrowzarr.Options{Columns: []string{"*", "nothing"}, Exclude: []string{"x?", "[", "first"}})
	for _, want := range []string{
		`columns: no column is named "nothing"`, `exclude: no column matches "x?"`, `exclude: "[" is neither the name of a column nor a valid pattern`,
		`expected some of "first", "good", "second"`, `column "second" of type`,
	} {
		assert.Contains(t, message, want)
	}
	assert.NotContains(t, message, `column "first" of type`, "it is excluded")
	assert.Contains(t, refuse(t, arrowzarr.PartUsage, input, arrowzarr.Options{Exclude: []string{"*"}}), "every column is excluded")
}

func TestUnsupportedColumnsAreSkippedAndReported(t *testing.T) {
	whole := withoutForm(t)
	input := inputFile(t, whole.File(t))
	output, report := convertFile(t, input, arrowzarr.Options{SkipUnsupported: true})
	requireTable(t, whole.Choose(1), output)
	verified, err := arrowzarr.Verify(t.Context(), input, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
	require.Len(t, report.Skipped, 2)
	for i, name := range []string{"first", "second"} {
		assert.Equal(t, name, report.Skipped[i].Name)
		assert.Equal(t, whole.Schema.Field(0).Type.String(), report.Skipped[i].Type)
		assert.Contains(t, report.Skipped[i].Reason, "fixed_shape_tensor")
	}
	_, report = convertFile(t, input, arrowzarr.Options{SkipUnsupported: true, Exclude: []string{"first"}})
	assert.Len(t, report.Skipped, 1, "an excluded column is not skipped")
	message := refuse(t, arrowzarr.PartInput, input, arrowzarr.Options{SkipUnsupported: true, Exclude: []string{"good"}})
	assert.Contains(t, message, "no column can be converted")
	assert.Contains(t, message, `"second"`)
}

func TestNamesOfManyColumnsAreNotAllListed(t *testing.T) {
	names := make([]string, 60)
	for i := range names {
		names[i] = fmt.Sprintf("column%d", i)
	}
	message := refuse(t, arrowzarr.PartUsage, inputFile(t, named(t, names...).File(t)), arrowzarr.Options{Columns: []string{"x"}})
	assert.Contains(t, message, `"column49" and 10 more`)
	assert.NotContains(t, message, "column50")
}
