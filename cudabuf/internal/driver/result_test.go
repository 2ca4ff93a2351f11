package driver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestResultsHaveUniqueNamesAndTexts(t *testing.T) {
	seen := map[string]Result{}
	for r, n := range resultNames {
		if r != Success {
			assert.True(t, strings.HasPrefix(n.name, "CUDA_ERROR_"), n.name)
		}
		for _, s := range []string{n.name, n.text} {
			other, twice := seen[s]
			assert.False(t, twice, "%d and %d are both %q", r, other, s)
			assert.NotEmpty(t, s)
			seen[s] = r
		}
	}
	assert.GreaterOrEqual(t, len(resultNames), 106)
	assert.Equal(t, "CUDA_SUCCESS", Success.Name())
	assert.Equal(t, "CUDA_ERROR_UNKNOWN", Result(999).Name())
}

func TestStickyResults(t *testing.T) {
	for _, r := range []Result{IllegalAddress, LaunchFailed, ECCUncorrectable, MisalignedAddress} {
		assert.True(t, r.Sticky(), "%v", r)
	}
	for _, r := range []Result{Success, InvalidValue, OutOfMemory, InvalidContext, NotFound, NotSupported} {
		assert.False(t, r.Sticky(), "%v", r)
	}
}
