package ndview_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// TestProgramsThatWereWrongAreRight has programs by which others were found wrong.
func TestProgramsThatWereWrongAreRight(t *testing.T) {
	tests := []struct{ name, program, want string }{
		{"a scalar beside halves that a kernel of float32 computes", "v0 = new bfloat16 [2] [3,-5]\nv1 = binary fmod v0 2", "bfloat16 [2] [1,-1]"},
		{"the same of float16", "v0 = new float16 [2] [7,-5]\nv1 = binary floor_divide v0 2", "float16 [2] [3,-3]"},
		{"times of two units to choose from", "v0 = new datetime64[s] [1] [1]\nv1 = new datetime64[ms] [1] [5]\nv2 = where v0 v0 v1", "datetime64[ms] [1] [1000]"},
		{"a condition that stands still", "v0 = new bool [] [1]\nv1 = new bool [3] [0,1,0]\nv2 = where v0 v1 v1", "bool [3] [0,1,0]"},
		{"bools computed into gaps", "v0 = new bool [3,2] [0,0,0,0,0,0]\nv1 = index v0 :: 1\nv2 = new bool [3] [1,0,1]\nunary_into v1 absolute v2", "bool [3] [1,0,1]"},
		{"complex numbers between bounds", "v0 = new complex64 [2] [1,2,5,0]\nv1 = clip v0 2 float32:3.5", "complex64 [2] [2,0,3.5,0]"},
		{"a bound beyond the type", "v0 = new uint8 [2] [1,200]\nv1 = clip v0 -3 -", "uint8 [2] [1,200]"},
		{"a plain number beside scalars of a type", "v0 = new int8 [1] [5]\nv1 = clip v0 float32:0.5 1.5", "float32 [1] [1.5]"},
		{"complex numbers from the first bound on", "v0 = new bool [2] [0,1]\nv1 = new complex64 [] [-0.25,0]\nv2 = clip v0 1 v1", "complex64 [2] [-0.25,0,-0.25,0]"},
		{"timedeltas between bounds", "v0 = new timedelta64[s] [2] [1,9]\nv1 = clip v0 timedelta64[s]:3 timedelta64[s]:5", "timedelta64[s] [2] [3,5]"},
		{"no elements, turned around", "v0 = new float16 [3,0,2] []\nv1 = index v0 ::-1 ::-1 ::-1\nv2 = reduce count_nonzero v1 [1,2] false -", "int64 [3] [0,0,0]"},
		{"products of integers as floats", "v0 = new int32 [3] [2,-3,5]\nv1 = reduce prod v0 - false float64", "float64 [] [-30]"},
		{"a plain integer and bfloat16", "v0 = new bfloat16 [2] [2,2]\nv1 = all_equal v0 2 false", "bool [] [1]"},
		{"zeros of bfloat16 and a plain 0", "v0 = new bfloat16 [2] [0,0]\nv1 = unary negative v0\nv2 = all_equal v1 0 true", "bool [] [1]"},
		{"a large plain integer and bfloat16", "v0 = new bfloat16 [1] [300]\nv1 = all_equal v0 300 false", "bool [] [1]"},
		{"times of two units", "v0 = new datetime64[s] [1] [1]\nv1 = new datetime64[ms] [1] [1000]\nv2 = all_equal v0 v1 false", "bool [] [1]"},
		{"a number beyond the type is true", "v0 = new uint8 [2] [0,1]\nv1 = binary logical_xor v0 -3", "bool [2] [1,0]"},
		{"three types together", "v0 = new int8 [1] [1]\nv1 = new uint8 [1] [2]\nv2 = new float16 [1] [0.5]\nv3 = concatenate 0 v0 v1 v2", "float16 [3] [1,2,0.5]"},
		{"repeated elements in order K", "v0 = new int8 [2] [1,2]\nv1 = broadcast v0 [2,2]\nv2 = ravel v1 K", "int8 [4] [1,2,1,2]"},
		{"datetimes joined with timedeltas", "v0 = new datetime64[s] [1] [1]\nv1 = new timedelta64[s] [1] [1]\nv2 = concatenate 0 v0 v1", "!"},
		{"times beyond the other's unit, of which none is taken", "v0 = new datetime64[s] [2] [4e18,0]\nv1 = new datetime64[ms] [0,2] []\nv2 = binary less v0 v1", "bool [0,2] []"},
		{"and none is chosen", "v0 = new timedelta64[s] [2] [4e18,0]\nv1 = new timedelta64[ms] [0,2] []\nv2 = new bool [0,1] []\nv3 = where v2 v0 v1", "timedelta64[ms] [0,2] []"},
		{"numbers beside times, of which none is chosen", "v0 = new int16 [0,3] []\nv1 = new timedelta64[s] [3] [1,2,3]\nv2 = new bool [0,1] []\nv3 = where v2 v0 v1", "timedelta64[s] [0,3] []"},
		{"one time beyond it", "v0 = new datetime64[s] [1] [4e18]\nv1 = new datetime64[ms] [0] []\nv2 = binary less v0 v1", "!"},
		{"times beyond it", "v0 = new datetime64[s] [2] [0,4e18]\nv1 = new datetime64[ms] [1] [1]\nv2 = binary less v0 v1", "!"},
		{"times beyond it in an array", "v0 = new datetime64[s] [2] [0,4e18]\nv1 = new datetime64[ms] [2] [1,1]\nv2 = all_equal v0 v1 false", "bool [] [0]"},
		{"months added to a day", "v0 = new datetime64[D] [1] [0]\nv1 = new timedelta64[M] [1] [1]\nv2 = binary add v0 v1", "!"},
		{"months added to months", "v0 = new datetime64[M] [1] [0]\nv1 = new timedelta64[Y] [1] [1]\nv2 = binary add v0 v1", "datetime64[M] [1] [12]"},
		{"days added to a month", "v0 = new datetime64[M] [1] [1]\nv1 = new timedelta64[D] [1] [1]\nv2 = binary add v0 v1", "datetime64[D] [1] [32]"},
		{"a number beside halves, too small for them but true", "v0 = new float16 [2] [1,0]\nv1 = binary logical_and v0 1e-300", "bool [2] [1,0]"},
		{"times that cannot be assigned", "v0 = new datetime64[ms] [2] [7,8]\nv1 = new datetime64[s] [2] [1,4e18]\nassign v0 v1\nv2 = get v0", "datetime64[ms] [2] [7,8]"},
		{"times of which some cannot be set", "v0 = new datetime64[ms] [2] [7,8]\nv1 = new datetime64[s] [2] [1,4e18]\nset v0 v1 :\nv2 = get v0", "datetime64[ms] [2] [7,8]"},
		{"a timedelta and a bool", "v0 = new timedelta64[s] [2] [3,4]\nv1 = new bool [2] [1,0]\nv2 = binary multiply v0 v1", "timedelta64[s] [2] [3,0]"},
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			got, errs := runAll(t, dev, strings.Split(tt.program, "\n"))
			last := len(got) - 1
			assert.Equal(t, tt.want, got[last], "%s: %v", tt.name, errs[last])
		}
	})
}
