package dtype_test

import (
	"encoding/json"
	"os"
	"testing"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/stretchr/testify/require"
)

// numpyType is dtype.ParseDType for tests; an empty string is the zero DType.
func numpyType(t testing.TB, s string) dtype.DType {
	t.Helper()
	if s == "" {
		return dtype.DType{}
	}
	dt, _, err := dtype.ParseDType(s)
	require.NoError(t, err)
	return dt
}

func numpyTypes(t testing.TB, names []string) []dtype.DType {
	types := make([]dtype.DType, len(names))
	for i, name := range names {
		types[i] = numpyType(t, name)
	}
	return types
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// raw returns the memory of the values as bytes.
func raw[T any](values ...T) []byte {
	var b []byte
	for i := range values {
		b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&values[i])), unsafe.Sizeof(values[i]))...)
	}
	return b
}

// goldenTypes is the content of testdata/golden/dtype.json, which dtype.py writes.
type goldenTypes struct {
	Promote, Records struct {
		Types []string
		Rows  [][]string
	}
	Triples, Cast struct {
		Types, Rows []string
	}
	Strings [][3]string
	Layouts []struct {
		Fields          string
		Packed, Aligned goldenLayout
	}
	Weak struct {
		Types  []string
		Values []struct{ Value, Result, Stored []string }
	}
	Strong struct {
		Types  []string
		Values []struct {
			Type, Bytes string
			Cast        []string
		}
	}
}

func loadGoldenTypes(t *testing.T) goldenTypes {
	t.Helper()
	text, err := os.ReadFile("testdata/golden/dtype.json")
	require.NoError(t, err)
	var golden goldenTypes
	require.NoError(t, json.Unmarshal(text, &golden))
	return golden
}

type goldenLayout struct {
	Size    int64
	Offsets []int64
}
