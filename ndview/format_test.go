package ndview_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestArraysPrintAsNumPyPrintsThem(t *testing.T) {
	text, err := os.ReadFile("testdata/golden/text.json")
	require.NoError(t, err)
	var cases []struct {
		DType, Data, Str, Repr string
		Shape                  []int64
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Greater(t, len(cases), 500)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range cases {
			dtype, _, err := ndview.ParseDType(c.DType)
			require.NoError(t, err, c.DType)
			data, err := hex.DecodeString(c.Data)
			if c.Data == "range" {
				data, err = ranged(dtype, c.Shape), nil
			}
			require.NoError(t, err)
			a := at(t, upload(t, dev, data), dtype, 0, c.Shape...)
			about := fmt.Sprintf("%s %v %.200s", c.DType, c.Shape, c.Data)
			assert.Equal(t, c.Str, a.String(), about)
			assert.Equal(t, c.Repr, a.GoString(), about)
		}
	})
}

// ranged is the elements 0, 1, 2, ... of a dtype.
func ranged(dtype ndview.DType, shape []int64) []byte {
	n := int64(1)
	for _, extent := range shape {
		n *= extent
	}
	var data []byte
	for i := range n {
		data = append(data, element(dtype, i)...)
	}
	return data
}

func element(dtype ndview.DType, i int64) []byte {
	switch dtype {
	case ndview.Bool:
		return raw(i != 0)
	case ndview.Float16:
		return raw(halfOf(i))
	case ndview.Float32:
		return raw(float32(i))
	case ndview.Float64:
		return raw(float64(i))
	case ndview.Complex64:
		return raw(complex(float32(i), 0))
	case ndview.Complex128:
		return raw(complex(float64(i), 0))
	default:
		return raw(i)[:dtype.Size()]
	}
}

// halfOf is a whole number below 2048 as a half.
func halfOf(i int64) uint16 {
	if i == 0 {
		return 0
	}
	bits := math.Float32bits(float32(i))
	return uint16((bits>>23-127+15)<<10 | bits>>13&0x3ff)
}

func TestBFloat16PrintsAsMLDtypesPrintsIt(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.BFloat16, []uint16{0x3fc0, 0x4000, 0x4049, 0x7f80, 0xff80, 0x7fc0, 0x8000, 0x501c, 0x3380, 0x4974, 0x38d2}, 11)
		assert.Equal(t, "[1.5 2 3.14062 inf -inf nan -0 1.0469e+10 5.96046e-08 999424 0.000100136]", a.String())
		assert.Equal(t, "array([1.5, 2, 3.14062, inf, -inf, nan, -0, 1.0469e+10, 5.96046e-08,\n       999424, 0.000100136], dtype=bfloat16)", a.GoString())
	})
}

func TestSummariesShowTheEndsOfViews(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(64*50*40), 64, 50, 40)
		turned, err := a.Transpose(2, 0, 1)
		own(t, turned, err)
		assert.Contains(t, turned.GoString(), "array([[[     0,     40,     80, ...,   1880,   1920,   1960],\n")
		assert.Contains(t, turned.GoString(), "shape=(40, 64, 50), dtype=int32)")
		back, err := ndview.FromBuffer(a.Buffer(), ndview.Int32, 4*1099, []int64{1100}, []int64{-4})
		own(t, back, err)
		assert.Equal(t, "[1099 1098 1097 ...    2    1    0]", back.String())
		same, err := ndview.FromBuffer(a.Buffer(), ndview.Int32, 4, []int64{1 << 40}, []int64{0})
		own(t, same, err)
		assert.Equal(t, "[1 1 1 ... 1 1 1]", same.String())
	})
}

func TestArraysThatCannotBeReadSayWhy(t *testing.T) {
	a, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int32, count(2), 2)
	require.NoError(t, err)
	a.Release()
	assert.Equal(t, "<array of int32 [2]: array of int32 [2]: buffer already released>", a.String())
	assert.Equal(t, a.String(), fmt.Sprintf("%#v", a))
}

// The array is larger than what a test could copy to the host unnoticed.
func TestOnlyWhatIsShownLeavesTheDevice(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		if strings.Contains(t.Name(), "/soft") {
			large, err := cudatest.Start(t, cudatest.Config{MemoryBytes: 16 << 30}).Device(0)
			require.NoError(t, err)
			dev = large
		}
		buf, err := dev.Alloc(12 << 30)
		own(t, buf, err)
		a := at(t, buf, ndview.Uint8, 0, 3<<30, 4)
		for i, row := range []int64{0, 1, 2, 3<<30 - 3, 3<<30 - 2, 3<<30 - 1} {
			_, err := buf.CopyFromHost([]byte{1, 2, 3, byte(i)}, 4*row)
			require.NoError(t, err)
		}
		turned, err := a.Transpose()
		own(t, turned, err)
		assert.Equal(t, "[[1 2 3 0]\n [1 2 3 1]\n [1 2 3 2]\n ...\n [1 2 3 3]\n [1 2 3 4]\n [1 2 3 5]]", a.String())
		assert.Equal(t, "[[1 1 1 ... 1 1 1]\n [2 2 2 ... 2 2 2]\n [3 3 3 ... 3 3 3]\n [0 1 2 ... 3 4 5]]", turned.String())
	})
}

func TestTimesTooFarForACalendarAreCounts(t *testing.T) {
	for _, c := range []struct {
		dtype string
		count int64
		want  string
	}{
		{"M8[25us]", 7662053170212165990, "<7662053170212165990 steps of 25 microseconds>"},
		{"M8[W]", -1 << 62, "<-4611686018427387904 steps of 1 weeks>"},
		{"M8[Y]", math.MaxInt64, "<9223372036854775807 steps of 1 years>"},
		{"M8[Y]", 8030, "10000"},
		{"M8[s]", math.MaxInt64, "292277026596-12-04T15:30:07"},
		{"M8[2W]", 3, "1970-02-12"},
	} {
		a := fromHost(t, arrowbuf.CPU(), parsed(t, c.dtype), []int64{c.count}, 1)
		assert.Equal(t, "['"+c.want+"']", a.String())
	}
}
