package ndview_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/internal/apitest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
)

// nilCase is how a package's functions are called with zero values.
type nilCase struct {
	folder, prefix string
	functions      map[string]any   // each exported function
	receivers      map[string][]any // zero values of each type with exported methods
	// valid are calls for which zero arguments are not invalid.
	valid []string
}

var nilCases = []nilCase{{
	folder: ".", prefix: "ndview.",
	functions: map[string]any{
		"ArgWhere": ndview.ArgWhere, "ArraySplit": ndview.ArraySplit, "AsArray": ndview.AsArray, "At": ndview.At,
		"AtLeast1D": ndview.AtLeast1D, "AtLeast2D": ndview.AtLeast2D, "AtLeast3D": ndview.AtLeast3D,
		"Bytes": ndview.Bytes, "CanCast": ndview.CanCast, "Clip": ndview.Clip, "ClipInto": ndview.ClipInto,
		"ColumnStack": ndview.ColumnStack, "Compress": ndview.Compress, "CompressFlat": ndview.CompressFlat,
		"Concatenate": ndview.Concatenate, "ConcatenateFlat": ndview.ConcatenateFlat, "CopyAll": ndview.CopyAll, "DLPackStream": ndview.DLPackStream,
		"DSplit": ndview.DSplit, "DStack": ndview.DStack, "Datetime64": ndview.Datetime64, "Empty": ndview.Empty,
		"FromArrow": ndview.FromArrow, "FromArrowMasked": ndview.FromArrowMasked, "FromBuffer": ndview.FromBuffer,
		"FromBytes": ndview.FromBytes, "FromDLPack": ndview.FromDLPack, "FromHost": ndview.FromHost[float32],
		"FromLegacyDLPack": ndview.FromLegacyDLPack, "FromSlice": ndview.FromSlice, "FromTensor": ndview.FromTensor,
		"Full": ndview.Full, "HSplit": ndview.HSplit, "HStack": ndview.HStack, "IntArray": ndview.IntArray,
		"Ints": ndview.Ints, "Mask": ndview.Mask, "MayShareMemory": ndview.MayShareMemory, "New": ndview.New,
		"NewScalar": ndview.NewScalar, "ScopeOf": ndview.ScopeOf, "NewScope": ndview.NewScope, "NewTensorType": ndview.NewTensorType,
		"NonZero": ndview.NonZero, "ParseDType": ndview.ParseDType, "ParseTimeUnit": ndview.ParseTimeUnit,
		"ParseZarrName": ndview.ParseZarrName, "Promote": ndview.Promote, "Put": ndview.Put, "Read": ndview.Read[float32],
		"Record": ndview.Record, "ResultType": ndview.ResultType, "ScalarOf": ndview.ScalarOf, "Span": ndview.Span,
		"HSplitAt": ndview.HSplitAt, "VSplitAt": ndview.VSplitAt, "DSplitAt": ndview.DSplitAt,
		"MaxAndArgMax": ndview.MaxAndArgMax, "MinAndArgMin": ndview.MinAndArgMin, "SpanStep": ndview.SpanStep, "Split": ndview.Split, "SplitAt": ndview.SplitAt, "Stack": ndview.Stack,
		"Take": ndview.Take, "TakeFlat": ndview.TakeFlat, "Timedelta64": ndview.Timedelta64, "ToArrow": ndview.ToArrow,
		"ToDLPack": ndview.ToDLPack, "ToHost": ndview.ToHost[float32], "VSplit": ndview.VSplit, "VStack": ndview.VStack,
		"Where": ndview.Where, "WhereInto": ndview.WhereInto, "Zeros": ndview.Zeros,
	},
	receivers: map[string][]any{
		"NDBuffer": {(*ndview.NDBuffer)(nil), &ndview.NDBuffer{}}, "Scope": {(*ndview.Scope)(nil), &ndview.Scope{}},
		"Flags": {ndview.Flags{}}, "Unary": {ndview.Unary{}, ndview.Sqrt}, "Binary": {ndview.Binary{}, ndview.Add},
		"Reduction": {ndview.Reduction{}, ndview.ArgMax}, "TensorType": {&ndview.TensorType{}},
	},
	valid: []string{
		// These are said to panic, as they do in arrow-go.
		"NDBuffer.Retain", "NDBuffer.Release",
		"CopyAll", // of no arrays does nothing
	},
}, {
	folder: "dtype", prefix: "dtype.",
	functions: map[string]any{
		"Aligned": dtype.Aligned, "Bytes": dtype.Bytes, "CanCast": dtype.CanCast, "CheckCast": dtype.CheckCast,
		"CheckGoType": dtype.CheckGoType, "Datetime64": dtype.Datetime64, "NewBFloat16": dtype.NewBFloat16,
		"NewScalar": dtype.NewScalar, "OfGoType": dtype.OfGoType, "Packed": dtype.Packed, "ParseArrow": dtype.ParseArrow,
		"ParseCName": dtype.ParseCName, "ParseDLPack": dtype.ParseDLPack, "ParseDType": dtype.ParseDType,
		"ParseTimeUnit": dtype.ParseTimeUnit, "ParseZarrName": dtype.ParseZarrName, "Promote": dtype.Promote,
		"Record": dtype.Record, "ResultType": dtype.ResultType, "ScalarOf": dtype.ScalarOf, "Timedelta64": dtype.Timedelta64,
	},
	receivers: map[string][]any{
		"BFloat16Num": {dtype.BFloat16Num(0)}, "Casting": {dtype.Casting(0), dtype.Casting(99)}, "DType": {dtype.DType{}},
		"Field": {dtype.Field{}}, "Scalar": {dtype.Scalar{}},
	},
}}

// A function added to either package fails this test until the table names it.
func TestZeroArgumentsReturnErrors(t *testing.T) {
	for _, c := range nilCases {
		var called []string
		names, err := apitest.Functions(c.folder)
		require.NoError(t, err)
		for _, name := range names {
			owner, method, isMethod := strings.Cut(name, ".")
			var calls []reflect.Value
			if !isMethod {
				if f, ok := c.functions[name]; ok {
					calls = []reflect.Value{reflect.ValueOf(f)}
				}
			}
			for _, receiver := range c.receivers[owner] {
				if isMethod {
					calls = append(calls, reflect.ValueOf(receiver).MethodByName(method))
				}
			}
			if !assert.NotEmpty(t, calls, "%s%s is not in the table", c.prefix, name) {
				continue
			}
			called = append(called, name)
			if slices.Contains(c.valid, name) {
				continue
			}
			for i, f := range calls {
				about := fmt.Sprintf("%s%s, call %d", c.prefix, name, i)
				err, returnsError := callWithZeros(t, f, about)
				if !returnsError {
					continue
				}
				if !assert.Error(t, err, about) {
					continue
				}
				assert.True(t, strings.HasPrefix(err.Error(), c.prefix) || strings.HasPrefix(err.Error(), "dtype."), "%s: %v", about, err)
				if owner == "NDBuffer" && i == 0 {
					assert.ErrorIs(t, err, ndview.ErrNil, about)
					assert.True(t, strings.HasPrefix(err.Error(), "ndview."+method+": "), "%s: %v", about, err)
				}
			}
		}
		for name := range c.functions {
			assert.Contains(t, called, name, "the table names a function that does not exist")
		}
	}
}

// callWithZeros calls a function with the zero value of each argument, which is nil for
// arrays, devices and buffers. It reports whether the last result is an error.
func callWithZeros(t *testing.T, f reflect.Value, about string) (err error, returnsError bool) {
	defer func() {
		if p := recover(); p != nil {
			assert.Fail(t, "panic", "%s: %v", about, p)
		}
	}()
	var zeros []reflect.Value
	fixed := f.Type().NumIn()
	if f.Type().IsVariadic() {
		fixed--
	}
	for i := range fixed {
		zeros = append(zeros, reflect.Zero(f.Type().In(i)))
	}
	results := f.Call(zeros)
	if len(results) == 0 {
		return nil, false
	}
	last := results[len(results)-1]
	if last.Type() != reflect.TypeFor[error]() {
		return nil, false
	}
	err, _ = last.Interface().(error)
	return err, true
}

// Each argument is nil alone, beside live values of the others.
func TestEachNilArgumentReturnsAnError(t *testing.T) {
	dev := arrowbuf.CPU()
	array, err := ndview.FromSlice(dev, []float32{1, 2, 3, 4}, 2, 2)
	require.NoError(t, err)
	t.Cleanup(array.Release)
	scope := ndview.NewScope()
	t.Cleanup(scope.Release)
	tensor, err := ndview.NewTensorType(arrow.PrimitiveTypes.Float32, []int64{2}, nil, nil)
	require.NoError(t, err)
	apitest.Zeros{
		Functions: nilCases[0].functions,
		Values: map[string]any{
			"NDBuffer": array, "Scope": scope, "Flags": array.Flags(), "Unary": ndview.Sqrt, "Binary": ndview.Add, "Reduction": ndview.Sum, "TensorType": tensor,
		},
		Args: []any{dev, ndview.Float32, array.Buffer(), []int64{1}},
		// Buffer and Base return no reference. Add takes the error that FromSlice returned.
		Skip:     []string{"Retain", "Release", "Buffer", "Base", "Add"},
		Optional: []string{"Clip", "ClipInto", "NDBuffer.AllEqual"}, // no limit; equals nothing
		Panics:   arrowbuf.ErrReleased,
	}.Run(t, ".")
	apitest.Zeros{
		Functions: nilCases[1].functions,
		Values: map[string]any{
			"BFloat16Num": dtype.BFloat16Num(0), "Casting": dtype.CastSafe, "DType": dtype.Int8, "Field": dtype.Field{}, "Scalar": dtype.Scalar{},
		},
		Args: []any{dtype.Float32},
	}.Run(t, "dtype")
}
