package text

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
)

func TestJSONObjectsMayHaveSeveralLinesOrBeInAList(t *testing.T) {
	want := []string{`1 {"b":"}]"}`, "2 (null)", `3 {"b":"\\"}`}
	for _, content := range []string{
		"{\"n\": 1, \"o\": {\"b\": \"}]\"}} {\"n\": 2}\n{\"n\": 3, \"o\": {\"b\": \"\\\\\"}}",
		"{\n  \"n\": 1,\r\n  \"o\": {\n    \"b\": \"}]\"\n  }\n}\n{\"n\": 2\n}{\"n\": 3, \"o\": {\"b\": \"\\\\\"}}\n",
		"[{\"n\": 1, \"o\": {\"b\": \"}]\"}}, {\"n\": 2}\n,\n {\"n\": 3, \"o\": {\"b\": \"\\\\\"}}\n]\n",
		" [\n{\"n\":1,\"o\":{\"b\":\"}]\"}},{\"n\":2},{\"n\":3,\"o\":{\"b\":\"\\\\\"}}]",
	} {
		path := sourcetest.WriteFile(t, "a.json", []byte(content))
		assert.Equal(t, "n int64, o struct<b: utf8 nullable>", sourcetest.Types(t, open(path)), content)
		assert.Equal(t, want, sourcetest.Rows(t, open(path)), content)
	}
	assert.Empty(t, sourcetest.Types(t, open(sourcetest.WriteFile(t, "a.json", []byte("[ ]\n")))))

	// Objects that cross the buffer of 64 KiB, and the MiB that types are inferred from.
	for _, list := range []bool{false, true} {
		content := strings.TrimSuffix(strings.Repeat("{\"n\": 7,\n \"t\": \""+strings.Repeat("x{", 30_000)+"\"},\n", 40), ",\n")
		if content = "[" + content + "]"; !list {
			content = strings.ReplaceAll(strings.Trim(content, "[]"), "},", "}")
		}
		path := sourcetest.WriteFile(t, "a.json", []byte(content))
		assert.Len(t, sourcetest.Rows(t, open(path)), 40)
	}
}
