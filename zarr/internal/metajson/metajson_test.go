package metajson_test

import (
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
