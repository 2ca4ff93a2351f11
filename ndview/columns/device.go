package columns

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// deviceOf is where an array is, or, if it has no memory, as one of nulls has none,
// where that beside it is.
func deviceOf(arr, beside arrow.Array) arrowbuf.Device {
	if dev := arrowbuf.DeviceOf(arr); dev != arrowbuf.CPU() || hasBuffers(arr.Data()) {
		return dev
	}
	return arrowbuf.DeviceOf(beside)
}

// deviceOfAll is where arrays are that are not on the host, if there are some.
func deviceOfAll(arrays []arrow.Array) arrowbuf.Device {
	for _, arr := range arrays {
		if dev := arrowbuf.DeviceOf(arr); dev != arrowbuf.CPU() {
			return dev
		}
	}
	return arrowbuf.CPU()
}

// errAbsent is of arrays, batches and types that are nil.
var errAbsent = fmt.Errorf("there is none: %w", arrow.ErrInvalid)

// hasBuffers tells whether an array has memory somewhere.
func hasBuffers(data arrow.ArrayData) bool {
	for _, b := range data.Buffers() {
		if b != nil && b.Len() > 0 {
			return true
		}
	}
	for _, child := range data.Children() {
		if child != nil && hasBuffers(child) {
			return true
		}
	}
	return false
}

// bring brings an array of the host to the device of the work.
func (w *work) bring(arr arrow.Array) (arrow.Array, error) {
	if dev := arrowbuf.DeviceOf(arr); dev != w.dev && dev != arrowbuf.CPU() {
		return nil, fmt.Errorf("on %s, for an array on %s: %w", dev, w.dev, arrowbuf.ErrDevice)
	}
	moved, err := arrowbuf.CopyArrayTo(arr, w.dev)
	if err != nil {
		return nil, err
	}
	w.hold(moved)
	return moved, nil
}
