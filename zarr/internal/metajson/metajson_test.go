package metajson_test

import (
	"encoding/json"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
	"github.com/stretchr/testify/assert"
)

func TestTruncatedObjectsAreErrorsThatSaySo(t *testing.T) {
	for _, text := range []string{`{`, `{"a":1`, `{"a":1,`, `{"a"`, `{"a":`, `{"a":[1`} {
		_, err := metajson.ParseObject("metadata", []byte(text))
		assert.ErrorContains(t, err, "metadata: ", text)
		assert.ErrorContains(t, err, "no end", text)
	}
}

func TestValuesOfOtherTypesAreErrorsWithoutTypesOfGo(t *testing.T) {
	for _, c := range []struct {
		raw  string
		dst  any
		want string
	}{
		{`[]`, new(map[string]any), "key: expected a JSON object, got []"},
		{`1`, new(bool), "key: expected true or false, got 1"},
		{`{}`, new(string), "key: expected a string, got {}"},
		{`"x"`, new(float64), `key: expected a number, got "x"`},
		{`"x"`, new([]*string), `key: expected a list of strings and null, got "x"`},
		{`["a",1]`, new([]string), `key: expected a list of strings, got ["a",1]`},
		{`{}`, new([]json.RawMessage), "key: expected a list, got {}"},
	} {
		assert.EqualError(t, metajson.Decode("key", json.RawMessage(c.raw), c.dst), c.want)
	}
}
