package ndview_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// reshape is a.ReshapeOrder for tests.
func reshape(t *testing.T, a *ndview.NDBuffer, order ndview.Order, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	v, err := a.ReshapeOrder(order, shape...)
	return own(t, v, err)
}

func TestReshapeInOrderAOfWhatLiesInBothOrdersIsInOrderC(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(6), 1, 6)
	f := a.Flags()
	assert.True(t, f.CContiguous && f.FContiguous)
	assert.Equal(t, raw[int32](0, 1, 2, 3, 4, 5), elements(t, reshape(t, a, ndview.OrderA, 2, 3)))
	assert.Equal(t, raw[int32](0, 2, 4, 1, 3, 5), elements(t, reshape(t, a, ndview.OrderF, 2, 3)))
}

func TestReshapeStepsOverAxesOfOneElement(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(2), 2)
	column := reshape(t, a, ndview.OrderF, 1, 1, 2)
	flat := reshape(t, column, ndview.OrderC, 1, 2)
	assert.Same(t, a, flat.Base(), "a view")
	turned, err := index(t, reshape(t, fromHost(t, arrowbuf.CPU(), ndview.Int32, count(12), 3, 1, 4), ndview.OrderC, 3, 1, 4),
		ndview.SpanStep(ndview.Open, ndview.Open, -1)).Reshape(1, 3, 1, 1, 4)
	own(t, turned, err)
	assert.NotNil(t, turned.Base(), "a view")
	assert.Equal(t, raw[int32](8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3), elements(t, turned))
}

func TestReshapeOfNoElementsInAnyOrder(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(0), 2, 0)
	for _, order := range []ndview.Order{ndview.OrderC, ndview.OrderF, ndview.OrderA} {
		v := reshape(t, a, order, 0, 3)
		f := v.Flags()
		assert.True(t, f.CContiguous && f.FContiguous, order)
		assert.Equal(t, []int64{3, 0}, reshape(t, a, order, 3, -1).Shape(), order)
	}
}

func TestReshapeCopiesOnTheDeviceWhatNoStridesCanSay(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(6), 2, 3)
		turned, err := a.Transpose()
		own(t, turned, err)
		flat := reshape(t, turned, ndview.OrderC, -1)
		assert.Nil(t, flat.Base())
		assert.Equal(t, dev, flat.Device())
		assert.False(t, ndview.MayShareMemory(a, flat))
		assert.Equal(t, raw[int32](0, 3, 1, 4, 2, 5), elements(t, flat))
		columns := reshape(t, a, ndview.OrderF, 3, 2)
		assert.Equal(t, []int64{4, 12}, columns.Strides())
		assert.Equal(t, raw[int32](0, 4, 3, 2, 1, 5), elements(t, columns))
	})
}

func TestReshapesThatMeanNothingAreErrShape(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(12), 3, 4)
	none := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(0), 0)
	view := func(_ *ndview.NDBuffer, err error) error { return err }
	for name, err := range map[string]error{
		"two open extents":                view(a.Reshape(-1, -1)),
		"an open extent that is no whole": view(a.Reshape(5, -1)),
		"an open extent beside 0":         view(a.Reshape(0, -1)),
		"any extent would do":             view(none.Reshape(0, -1)),
		"an extent of -2":                 view(a.Reshape(-2, 6)),
		"order K":                         view(a.ReshapeOrder(ndview.OrderK, 12)),
		"order Z":                         view(a.ReshapeOrder('Z', 12)),
		"ravel in order Z":                view(a.Ravel('Z')),
		"larger than memory, times 0":     view(none.Reshape(0, 1<<40, 1<<40)),
	} {
		assert.ErrorIs(t, err, ndview.ErrShape, name)
	}
}
