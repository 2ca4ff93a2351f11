package equal

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// Kernels read the bytes of a Plan. The simulated device does not check the layout, as
// its host implementations are Go.
func TestPlanLayoutMatchesKernels(t *testing.T) {
	var p Plan // see struct Equal of kernels/elementwise/equal.cu
	assert.EqualValues(t, 8, unsafe.Offsetof(p.Pattern))
	assert.EqualValues(t, 24, unsafe.Offsetof(p.Constant))
	assert.EqualValues(t, 28, unsafe.Offsetof(p.NaNEqual))
	assert.EqualValues(t, 32, unsafe.Offsetof(p.Axes))
	assert.EqualValues(t, 36, unsafe.Offsetof(p.TypeX))
	assert.EqualValues(t, 37, unsafe.Offsetof(p.TypeY))
	assert.EqualValues(t, 40, unsafe.Offsetof(p.Axis))
	assert.EqualValues(t, 40, unsafe.Sizeof(p.Axis[0]))
	assert.EqualValues(t, 40+40*len(p.Axis), unsafe.Sizeof(p))
}
