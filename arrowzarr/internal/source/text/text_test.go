package text

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
)

// open returns an opener of a file in the format of its extension.
func open(path string) sourcetest.Opener {
	return sourcetest.Local(path, sourcetest.Options(), func(file *source.File, options source.Options) (source.Source, error) {
		format, ok := FormatOf(file.Name, options.Text)
		if !ok {
			return nil, fmt.Errorf("%s has no extension of text", file.Name)
		}
		return Open(file, format, options)
	})
}

func TestValuesOfOtherTypesAreNamed(t *testing.T) {
	for want, test := range map[string][2]string{
		`line 10002, column "n": "x" is no int64`:                           {"a.csv", sourcetest.LateRow("n,t\n", "1,a\n", "x,b\n")},
		`line 10002, column "n": "1.5" is no int64`:                         {"a.csv", sourcetest.LateRow("n,t\n", "1,a\n", "1.5,b\n")},
		`line 10002, column "n": "007" is no int64`:                         {"a.csv", sourcetest.LateRow("n,t\n", "1,a\n", "007,b\n")},
		`line 10002, column "n": "9223372036854775808" is no int64`:         {"a.csv", sourcetest.LateRow("n\n", "1\n", "9223372036854775808\n")},
		`line 10002, column "n": "2020-01-01T10:00" is no date32`:           {"a.csv", sourcetest.LateRow("n\n", "2020-01-01\n", "2020-01-01T10:00\n")},
		`column "n": "2020-01-01T10:00Z" is no timestamp[us]`:               {"a.csv", sourcetest.LateRow("n\n", "2020-01-01T10:00\n", "2020-01-01T10:00Z\n")},
		`line 3: 3 columns, expected 2`:                                     {"a.csv", "n,t\n1,2\n1,2,3\n"},
		`line 2: 2 columns, expected 1 (separated by ',': see --delimiter)`: {"a.csv", "n;t\n1;2,5\n"},
		`line 2, column "n": "caf\xe9": text that is not UTF-8`:             {"a.csv", "n\ncaf\xe9\n"},
		`name of column 1, "caf\xe9": text that is not UTF-8`:               {"a.csv", "caf\xe9\n1\n"},
		`line 2: text that is not UTF-8`:                                    {"a.json", "{\"n\": 1}\n{\"n\": \"caf\xe9\"}\n"},
		`"x\ud800y" has half of a surrogate pair`:                           {"a.json", `{"n": "x\ud800y"}`},
		`the file has no header`:                                            {"a.csv", ""},
		`line 2: a quoted field that is not closed`:                         {"a.csv", "n\n\"a\n"},
		`line 10002, column "n": "(null)" is no int64`:                      {"a.csv", sourcetest.LateRow("n,t\n", "1,a\n", "(null),b\n")},
		`text in UTF-16`: {"a.csv", "\xff\xfen\x00\n\x00"},
		`line 10001, column "n": "\"x\"" is no int64`:                        {"a.json", sourcetest.LateRow("", "{\"n\": 1}\n", "{\"n\": \"x\"}\n")},
		`line 10001, column "n": "1.0" is no int64`:                          {"a.json", sourcetest.LateRow("", "{\"n\": 1}\n", "{\"n\": 1.0}\n")},
		`line 10001, column "b": "1" is no bool`:                             {"a.json", sourcetest.LateRow("", "{\"b\": true}\n", "{\"b\": 1}\n")},
		`line 10001, column "m": the first rows do not have`:                 {"a.json", sourcetest.LateRow("", "{\"n\": 1}\n", "{\"m\": 1}\n")},
		`column "o": the first rows do not have the member "q`:               {"a.json", sourcetest.LateRow("", "{\"o\": {\"p\": 1}}\n", "{\"o\": {\"q\": 1}}\n")},
		`line 10001, column "o": "[1]" is no struct`:                         {"a.json", sourcetest.LateRow("", "{\"o\": {\"p\": 1}}\n", "{\"o\": [1]}\n")},
		`line 1, column "n": it occurs twice`:                                {"a.json", `{"n": 1, "n": 2}`},
		`line 2: no object of JSON: 1, expected an object`:                   {"a.json", "{\"n\": 1}\n1\n{}"},
		`line 3: no object of JSON: expected a comma or the end of the list`: {"a.json", "[{\"n\": 1}\n\n{}]"},
		`line 2: no object of JSON: unexpected EOF`:                          {"a.json", "[{\"n\": 1}\n"},
		`line 1: more after the list`:                                        {"a.json", "[{\"n\": 1}] {}"},
		`line 1: no object of JSON: invalid character ']'`:                   {"a.json", "[{\"n\": 1},]"},
		`line 1: no object of JSON: [2], expected an object`:                 {"a.json", "[[2]]"},
		`line 2: no object of JSON`:                                          {"a.json", "{\"n\": 1}\n{\"n\": 1\n"},
	} {
		path := sourcetest.WriteFile(t, test[0], []byte(test[1]))
		err := sourcetest.ReadAll(open(path))
		require.Error(t, err, want)
		message := err.Error()
		assert.Contains(t, message, want)
		switch {
		case strings.Contains(want, " is no struct"), strings.Contains(want, "the member"):
			assert.Contains(t, message, "give --infer-rows all, or --exclude 'o' leaves the column out")
		case strings.Contains(want, " is no "):
			assert.Contains(t, message, "the type that the first rows say: give --infer-rows all, or another type, such as --types '")
		}
	}
}

func TestRangesOfTextAreSlicesOfTheWhole(t *testing.T) {
	var lines []string
	for i := range 50 {
		lines = append(lines, fmt.Sprint(i))
	}
	path := sourcetest.WriteFile(t, "a.csv", []byte("n\n"+strings.Join(lines, "\n")))
	for from := range 52 {
		for _, to := range []int{-1, from, from + 1, from + 20, 50} {
			end := 50
			if to >= 0 {
				end = min(to, 50)
			}
			var got []string
			require.NoError(t, sourcetest.Read(open(path), []int{0}, source.RowRange{From: int64(from), To: int64(to)}, func(b arrow.RecordBatch) {
				for i := range int(b.NumRows()) {
					got = append(got, b.Column(0).ValueStr(i))
				}
			}))
			require.Len(t, got, max(end-from, 0))
			if len(got) > 0 {
				require.Equal(t, lines[from:end], got)
			}
		}
	}
}

func TestRowsLongerThanWhatIsReadFirstAreRead(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	for name, content := range map[string]string{"a.csv": "n,t\n1," + long + "\n2,y\n", "a.json": `{"n": 1, "t": "` + long + "\"}\n{\"n\": 2, \"t\": \"y\"}\n"} {
		path := sourcetest.WriteFile(t, name, []byte(content))
		assert.Equal(t, []string{"1 " + long, "2 y"}, sourcetest.Rows(t, open(path)))
	}
	path := sourcetest.WriteFile(t, "long.json", []byte(`{"t": "`+strings.Repeat("x", 20<<20)+`"}`))
	require.ErrorContains(t, sourcetest.Read(open(path), []int{0}, source.WholeInput, nil), "a row of more than")
}
