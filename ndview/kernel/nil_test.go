package kernel_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/apitest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

// Each exported function and method returns an error for nil and zero values.
func TestNilAndZeroValuesAreErrors(t *testing.T) {
	copies := kernel.ElementwiseSource{Code: "a = b", Host: func(a, b []int8) { copy(a, b) }}
	e, err := kernel.NewElementwise(arrowbuf.CPU(), copies, writes("a", dtype.Int8), reads("b", dtype.Int8))
	require.NoError(t, err)
	add := kernel.ReductionSource{Out: dtype.Int8, Neutral: "0", Reduce: "a + b", Host: kernel.NewHostReduction(0, func(a, b int8) int8 { return a + b }, nil)}
	r, err := kernel.NewReduction(arrowbuf.CPU(), add, reads("x", dtype.Int8))
	require.NoError(t, err)
	a := ndtest.FromHost(t, arrowbuf.CPU(), dtype.Int8, []int8{1, 2}, 2)
	of := func(_ *ndview.NDBuffer, err error) error { return err }
	elementwise := func(dev arrowbuf.Device, s kernel.ElementwiseSource, args ...kernel.Arg) error {
		_, err := kernel.NewElementwise(dev, s, args...)
		return err
	}
	reduction := func(dev arrowbuf.Device, s kernel.ReductionSource, args ...kernel.Arg) error {
		_, err := kernel.NewReduction(dev, s, args...)
		return err
	}
	declare := func(name string, t dtype.DType) error { _, err := kernel.DeclareRecord(name, t); return err }
	changed := add
	changed.Host = &kernel.HostReduction{}
	noReduce := add
	noReduce.Host = kernel.NewHostReduction[int8](0, nil, nil)
	noMap := add
	noMap.Host = kernel.NewHostReduction(0, func(a, b int8) int8 { return a + b }, (func(_, _ []int8))(nil))

	cases := map[string][]error{
		"NewElementwise": {
			elementwise(nil, copies, writes("a", dtype.Int8), reads("b", dtype.Int8)),
			elementwise((*cudabuf.Device)(nil), copies, writes("a", dtype.Int8), reads("b", dtype.Int8)),
			elementwise(arrowbuf.CPU(), kernel.ElementwiseSource{}), elementwise(arrowbuf.CPU(), copies), elementwise(arrowbuf.CPU(), copies, kernel.Arg{}),
			elementwise(arrowbuf.CPU(), copies, kernel.Arg{Name: "a", Write: true}, reads("b", dtype.Int8)),
			elementwise(arrowbuf.CPU(), kernel.ElementwiseSource{Host: copies.Host}, writes("a", dtype.Int8), reads("b", dtype.Int8)),
			elementwise(arrowbuf.CPU(), kernel.ElementwiseSource{Code: "a = b", Host: (func(_, _ []int8))(nil)}, writes("a", dtype.Int8), reads("b", dtype.Int8)),
		},
		"NewReduction": {
			reduction(nil, add, reads("x", dtype.Int8)), reduction((*cudabuf.Device)(nil), add, reads("x", dtype.Int8)),
			reduction(arrowbuf.CPU(), kernel.ReductionSource{}), reduction(arrowbuf.CPU(), add), reduction(arrowbuf.CPU(), add, kernel.Arg{}),
			reduction(arrowbuf.CPU(), changed, reads("x", dtype.Int8)),
		},
		"NewHostReduction": {reduction(arrowbuf.CPU(), noReduce, reads("x", dtype.Int8)), reduction(arrowbuf.CPU(), noMap, reads("x", dtype.Int8))},
		"DeclareRecord":    {declare("", dtype.DType{}), declare("a", dtype.DType{})},
		"Elementwise.Run": {
			(*kernel.Elementwise)(nil).Run(a, a), new(kernel.Elementwise).Run(a, a), e.Run(), e.Run(nil, nil), e.Run(a, nil),
			e.Run(a, (*ndview.NDBuffer)(nil)), e.Run(new(ndview.NDBuffer), a),
		},
		"Reduction.Of": {
			of((*kernel.Reduction)(nil).Of(nil, false, a)), of(new(kernel.Reduction).Of(nil, false, a)), of(r.Of(nil, false)),
			of(r.Of(nil, false, nil)), of(r.Of(nil, false, (*ndview.NDBuffer)(nil))), of(r.Of(nil, false, new(ndview.NDBuffer))),
		},
		"Reduction.Into": {
			(*kernel.Reduction)(nil).Into(a, nil, a), new(kernel.Reduction).Into(a, nil, a), r.Into(nil, nil, a), r.Into(new(ndview.NDBuffer), nil, a), r.Into(a, nil),
		},
	}
	for name, errs := range cases {
		for i, err := range errs {
			if assert.Error(t, err, "%s, case %d", name, i) {
				assert.True(t, strings.HasPrefix(err.Error(), "kernel."), "%s, case %d: %v", name, i, err)
			}
		}
	}
	exported, err := apitest.Functions(".")
	require.NoError(t, err)
	assert.Equal(t, exported, slices.Sorted(maps.Keys(cases)), "each exported function has cases")
}
