package ndview_test

import (
	"fmt"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowbuftest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leakRecorder records what a checked device reports when its test ends.
type leakRecorder struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *leakRecorder) Helper()          {}
func (r *leakRecorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *leakRecorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// Each operation runs as on the wrapped device, its result is a checked buffer, and the
// result is reported as a leak if it alone is not released.
func TestOperationsOnCheckedDeviceAreLeakChecked(t *testing.T) {
	type operation = func(a, b, i *ndview.NDBuffer) (*ndview.NDBuffer, error)
	operations := map[string]operation{
		"Add":      func(a, b, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) { return ndview.Add.Of(a, b) },
		"Less":     func(a, b, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) { return ndview.Less.Of(a, b) },
		"Multiply": func(a, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) { return ndview.Multiply.Of(a, 2) },
		"Max": func(a, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
			return ndview.Max.Of(a, ndview.ReduceOptions{})
		},
		"Copy of a transpose": func(a, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
			turned, err := a.Transpose()
			if err != nil {
				return nil, err
			}
			defer turned.Release()
			return turned.Copy(ndview.OrderC)
		},
		"AsType": func(a, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
			return a.AsType(ndview.Float64, ndview.OrderC, ndview.CastSafe)
		},
		"Concatenate": func(a, b, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
			return ndview.Concatenate([]*ndview.NDBuffer{a, b}, 0)
		},
		"Take": func(a, _, i *ndview.NDBuffer) (*ndview.NDBuffer, error) { return ndview.Take(a, i, 0, ndview.ModeWrap) },
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, operate := range operations {
			t.Run(name, func(t *testing.T) {
				r := &leakRecorder{TB: t}
				on := func(dev arrowbuf.Device) *ndview.NDBuffer {
					a, err := ndview.FromHost(dev, ndview.Int32, []int32{5, -1, 7, 3, 2, 8}, 2, 3)
					require.NoError(t, err)
					defer a.Release()
					b, err := ndview.FromHost(dev, ndview.Int32, []int32{1, 1, 2, 3, 5, 8}, 2, 3)
					require.NoError(t, err)
					defer b.Release()
					i, err := ndview.FromHost(dev, ndview.Int64, []int64{1, -2, 0}, 3)
					require.NoError(t, err)
					defer i.Release()
					result, err := operate(a, b, i)
					require.NoError(t, err)
					return result
				}
				checked := arrowbuftest.Checked(r, dev)
				want, got := on(dev), on(checked)
				defer want.Release()
				assert.Equal(t, checked, got.Device())
				wantBytes, gotBytes := make([]byte, want.NBytes()), make([]byte, got.NBytes())
				require.NoError(t, want.CopyToHost(wantBytes))
				require.NoError(t, got.CopyToHost(gotBytes))
				assert.Equal(t, wantBytes, gotBytes)
				for _, end := range r.cleanups {
					end()
				}
				require.Len(t, r.failures, 1)
				assert.Contains(t, r.failures[0], fmt.Sprintf("leak: %d bytes on cuda:0, allocated by ", got.NBytes()))
				assert.Contains(t, r.failures[0], "called by ndview_test.TestOperationsOnCheckedDeviceAreLeakChecked")
				r.failures = nil
				got.Release()
				for _, end := range r.cleanups {
					end()
				}
				assert.Empty(t, r.failures)
			})
		}
	})
}
