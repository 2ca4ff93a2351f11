package docs

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

var unaryOperations = map[string]ndview.Unary{
	"Absolute": ndview.Absolute, "Angle": ndview.Angle, "Arccos": ndview.Arccos, "Arccosh": ndview.Arccosh,
	"Arcsin": ndview.Arcsin, "Arcsinh": ndview.Arcsinh, "Arctan": ndview.Arctan, "Arctanh": ndview.Arctanh,
	"Cbrt": ndview.Cbrt, "Ceil": ndview.Ceil, "Conjugate": ndview.Conjugate, "Cos": ndview.Cos, "Cosh": ndview.Cosh,
	"Exp": ndview.Exp, "Exp2": ndview.Exp2, "Expm1": ndview.Expm1, "Floor": ndview.Floor, "Imag": ndview.Imag,
	"Invert": ndview.Invert, "IsFinite": ndview.IsFinite, "IsInf": ndview.IsInf, "IsNaN": ndview.IsNaN, "Log": ndview.Log,
	"Log10": ndview.Log10, "Log1p": ndview.Log1p, "Log2": ndview.Log2, "LogicalNot": ndview.LogicalNot,
	"Negative": ndview.Negative, "Positive": ndview.Positive, "Real": ndview.Real, "Reciprocal": ndview.Reciprocal,
	"Rint": ndview.Rint, "Sign": ndview.Sign, "Signbit": ndview.Signbit, "Sin": ndview.Sin, "Sinh": ndview.Sinh,
	"Sqrt": ndview.Sqrt, "Square": ndview.Square, "Tan": ndview.Tan, "Tanh": ndview.Tanh, "Trunc": ndview.Trunc,
}

var binaryOperations = map[string]ndview.Binary{
	"Add": ndview.Add, "Arctan2": ndview.Arctan2, "BitwiseAnd": ndview.BitwiseAnd, "BitwiseOr": ndview.BitwiseOr,
	"BitwiseXor": ndview.BitwiseXor, "Copysign": ndview.Copysign, "Divide": ndview.Divide, "Equal": ndview.Equal,
	"FloorDivide": ndview.FloorDivide, "Fmax": ndview.Fmax, "Fmin": ndview.Fmin, "Fmod": ndview.Fmod,
	"Greater": ndview.Greater, "GreaterEqual": ndview.GreaterEqual, "Hypot": ndview.Hypot, "LeftShift": ndview.LeftShift,
	"Less": ndview.Less, "LessEqual": ndview.LessEqual, "LogicalAnd": ndview.LogicalAnd, "LogicalOr": ndview.LogicalOr,
	"LogicalXor": ndview.LogicalXor, "Maximum": ndview.Maximum, "Minimum": ndview.Minimum, "Multiply": ndview.Multiply,
	"Nextafter": ndview.Nextafter, "NotEqual": ndview.NotEqual, "Power": ndview.Power, "Remainder": ndview.Remainder,
	"RightShift": ndview.RightShift, "Subtract": ndview.Subtract,
}

// kindsOf are the types that a cell of the table names, up to a semicolon.
var kindsOf = map[string]string{
	"all": "bool integers floats complex", "all except bool": "integers floats complex", "bool, integers": "bool integers",
	"bool, integers, floats": "bool integers floats", "bool, integers (unchanged), floats": "bool integers floats",
}

var typesOfKind = map[string][]ndview.DType{
	"bool": {ndview.Bool}, "complex": {ndview.Complex64, ndview.Complex128}, "bytes": {ndview.Bytes(3)},
	"integers": {ndview.Int8, ndview.Int16, ndview.Int32, ndview.Int64, ndview.Uint8, ndview.Uint16, ndview.Uint32, ndview.Uint64},
	"floats":   {ndview.Float16, ndview.BFloat16, ndview.Float32, ndview.Float64},
}

// The table of operations says which types each takes, and has all operations.
func TestOperationsTakeTheTypesOfTheTable(t *testing.T) {
	text, err := os.ReadFile("ufuncs.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "| operations | types |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var listed []string
	for _, row := range strings.Split(table, "\n") {
		names, cell, found := strings.Cut(strings.Trim(row, "| "), " | ")
		require.True(t, found, row)
		kind, _, _ := strings.Cut(cell, ";")
		taken, ok := kindsOf[kind]
		if names == "Where" {
			continue
		}
		require.True(t, ok, "unknown types: %s", cell)
		for name := range strings.SplitSeq(names, ", ") {
			listed = append(listed, name)
			for kind, types := range typesOfKind {
				for _, dtype := range types {
					err := apply(t, name, dtype)
					if strings.Contains(taken, kind) {
						assert.NoError(t, err, "%s of %s", name, dtype)
					} else {
						assert.True(t, errors.Is(err, ndview.ErrDType), "%s of %s: %v", name, dtype, err)
					}
				}
			}
		}
	}
	slices.Sort(listed)
	assert.Equal(t, declaredOperations(t), listed)
}

// apply returns the error of an operation on arrays of a type.
func apply(t *testing.T, name string, dtype ndview.DType) error {
	t.Helper()
	a, err := ndview.Zeros(arrowbuf.CPU(), dtype, 2)
	require.NoError(t, err)
	defer a.Release()
	var result *ndview.NDBuffer
	if unary, ok := unaryOperations[name]; ok {
		result, err = unary.Of(a)
	} else if binary, ok := binaryOperations[name]; ok {
		result, err = binary.Of(a, a)
	} else {
		require.Equal(t, "Clip", name)
		result, err = ndview.Clip(a, a, a)
	}
	if err == nil {
		result.Release()
	}
	return err
}

// declaredOperations returns the names of package ndview's operations, sorted.
func declaredOperations(t *testing.T) []string {
	t.Helper()
	names := []string{"Clip"}
	sources, err := filepath.Glob("../ndview/*.go")
	require.NoError(t, err)
	for _, path := range sources {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^\s+([A-Z]\w+)\s+= (?:unaryOp|binaryOp)\(`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}
