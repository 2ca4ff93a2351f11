package arrowbuf_test

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf/internal/arraytest"
)

// movable is a table of types, one at least of every kind.
var movable = arraytest.Types

func randomArray(t testing.TB, mem memory.Allocator, rng *rand.Rand, dtype arrow.DataType, n int, nulls bool) arrow.Array {
	t.Helper()
	return arraytest.Random(t, mem, rng, dtype, n, nulls)
}
