package text

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
)

// recordsOf reads records of CSV, each as its fields in brackets and the line of the first.
func recordsOf(in io.Reader, comma rune) (records []string, err error) {
	r := newCSVReader(in, comma, 1<<20)
	for {
		fields, err := r.read()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return records, err
		}
		records = append(records, fmt.Sprintf("%d%q", r.lines[0], fields))
	}
}

// The records are those that pyarrow, pandas and Python's csv module read.
func TestCSVRecordsAreThoseOfPyarrowAndPandas(t *testing.T) {
	for text, want := range map[string][]string{
		"":                         nil,
		"\n\r\n\r":                 nil,
		"a,b\n1,2":                 {`1["a" "b"]`, `2["1" "2"]`},
		"a,b\r\n\r\n1,\r\n":        {`1["a" "b"]`, `3["1" ""]`},
		"a,b\r1,2\r\r3,4\r":        {`1["a" "b"]`, `2["1" "2"]`, `4["3" "4"]`},
		"a\n\"\"\n":                {`1["a"]`, `2[""]`},
		"a,\n,\n,":                 {`1["a" ""]`, `2["" ""]`, `3["" ""]`},
		"\"a\r\nb\",\"\n\"\nc,d\n": {`1["a\r\nb" "\n"]`, `4["c" "d"]`},
		"\"a\rb\"\rc":              {`1["a\rb"]`, `3["c"]`},
		`"a ""b""",c`:              {`1["a \"b\"" "c"]`},
		`a "b",5" disk, "c"`:       {`1["a \"b\"" "5\" disk" " \"c\""]`},
		`"a"b,"c" ,"d"e"f"`:        {`1["ab" "c " "de\"f\""]`},
		`"""",""`:                  {`1["\"" ""]`},
		"x\x00y,é\n":               {`1["x\x00y" "é"]`},
	} {
		for _, in := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
			records, err := recordsOf(in, ',')
			require.NoError(t, err, text)
			assert.Equal(t, want, records, text)
		}
	}
}

func TestCSVDelimitersMayHaveSeveralBytes(t *testing.T) {
	text := "a§b§\"c§d\"\n\xc2x§y\xc2§\n§\xc2"
	want := []string{`1["a" "b" "c§d"]`, `2["\xc2x" "y\xc2" ""]`, `3["" "\xc2"]`}
	for _, in := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
		records, err := recordsOf(in, '§')
		require.NoError(t, err)
		assert.Equal(t, want, records)
	}
}

func TestCSVRecordsCrossBuffers(t *testing.T) {
	long := strings.Repeat("x\r\n", 70_000)
	for n := range 5 {
		text := strings.Repeat("a", 1<<16-n) + ",\"" + long + "\"\"\",b\r\nc,d,e\r\n"
		records, err := recordsOf(strings.NewReader(text), ',')
		require.NoError(t, err)
		require.Len(t, records, 2)
		assert.Equal(t, fmt.Sprintf("1%q", []string{strings.Repeat("a", 1<<16-n), long + `"`, "b"}), records[0])
		assert.Equal(t, `70002["c" "d" "e"]`, records[1])
	}
}

func TestCSVRecordsAreLimited(t *testing.T) {
	for want, text := range map[string]string{
		"line 2: a record of more than 1048576 bytes":  "a\n\"" + strings.Repeat("x\n", 1<<20),
		"line 3: a quoted field that is not closed":    "a,b\n\"x\n\",\"y\n",
		"line 4: a quoted field that is not closed":    "a\n\n\n\"y\"\"",
		"line 2: a record of more than 1048576 bytes,": "a\n" + strings.Repeat(",x", 1<<20),
	} {
		_, err := recordsOf(strings.NewReader(text), ',')
		assert.ErrorContains(t, err, want)
	}
}

func TestTypesOfCSVComeFromItsFirstRows(t *testing.T) {
	for values, want := range map[string]string{
		"1\n-2\n\n": "int64", "1\n2.5": "float64", "1e3\nNaN": "float64", "true\nFALSE": "bool", "2020-02-29": "date32",
		"2020-02-29T10:11:12\n2020-03-01": "timestamp[us]", "2020-02-29 10:11:12.123456789": "timestamp[ns]",
		"2020-02-29T10:11:12Z\n2020-02-29T10:11:12.5+02:00": "timestamp[us, tz=UTC]",
		"2020-02-29T10:11:12Z\n2020-02-29T10:11:12":         "utf8",
		"2020-02-30": "utf8", "007": "utf8", "1\ntrue": "utf8", "18446744073709551616": "utf8", "NA\nNULL": "utf8", "x": "utf8", "1\n2020-01-01": "utf8",
	} {
		path := sourcetest.WriteFile(t, "a.csv", []byte("c,d\n"+strings.ReplaceAll(values, "\n", ",z\n")+",z\n"))
		assert.Equal(t, "c "+want+", d utf8", sourcetest.Types(t, open(path)), values)
	}
}

func TestCSVKeepsQuotesAndEndsOfLines(t *testing.T) {
	path := sourcetest.WriteFile(t, "a.csv", []byte("n,t\r\n1,\"a\r\nb\"\r\n2,5\" disk\r\n3,\"x\" y\r\n"))
	assert.Equal(t, []string{"1 a\r\nb", "2 5\" disk", "3 x y"}, sourcetest.Rows(t, open(path)))
	path = sourcetest.WriteFile(t, "a.csv", []byte("n,t\n1,(null)\n")) // which is how arrow-go writes a null
	assert.Equal(t, "n int64, t utf8", sourcetest.Types(t, open(path)))
	require.NoError(t, sourcetest.Read(open(path), []int{1}, source.WholeInput, func(b arrow.RecordBatch) { assert.Zero(t, b.Column(0).NullN()) }))
	path = sourcetest.WriteFile(t, "a.csv", []byte("n,t\r1,a\r2,b\r")) // of the first Macintoshes
	assert.Equal(t, "n int64, t utf8", sourcetest.Types(t, open(path)))
	assert.Equal(t, []string{"1 a", "2 b"}, sourcetest.Rows(t, open(path)))
}
