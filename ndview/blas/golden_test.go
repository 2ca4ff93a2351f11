package blas_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/blas"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

// golden is the content of testdata/golden/blas.json, see blas.py.
type golden struct {
	Data  map[string]string
	Cases []goldenCase
}

// layout is an array of golden data, in bytes.
type goldenLayout struct {
	data           string
	offset         int64
	shape, strides []int64
}

type goldenCase struct {
	operation, dtype string
	a, b, c          *goldenLayout
	alpha, beta      any
	transA, transB   blas.Trans
	shape            []int64
	result           string
}

func (l *goldenLayout) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal(raw, &[]any{&l.data, &l.offset, &l.shape, &l.strides})
}

func (c *goldenCase) UnmarshalJSON(raw []byte) error {
	var transA, transB *string
	err := json.Unmarshal(raw, &[]any{&c.operation, &c.dtype, &c.a, &c.b, &c.c, &c.alpha, &c.beta, &transA, &transB, &c.shape, &c.result})
	for _, v := range []*any{&c.alpha, &c.beta} {
		switch n := (*v).(type) {
		case float64:
			if n == float64(int(n)) {
				*v = int(n)
			}
		case []any:
			*v = complex(n[0].(float64), n[1].(float64))
		}
	}
	for to, name := range map[*blas.Trans]*string{&c.transA: transA, &c.transB: transB} {
		if name != nil {
			*to = map[string]blas.Trans{"T": blas.Transpose, "C": blas.ConjTranspose}[*name]
		}
	}
	return err
}

func readGolden(t *testing.T) *golden {
	t.Helper()
	path := "testdata/golden/blas.json"
	if other := os.Getenv("QUIVER_BLAS_CASES"); other != "" { // of CuPy, see blas.py
		path = other
	}
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var g golden
	require.NoError(t, json.Unmarshal(raw, &g))
	require.Greater(t, len(g.Cases), 100)
	return &g
}

// array returns an array of golden data on a device, and its buffer.
func (g *golden) array(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, l *goldenLayout) (*ndview.NDBuffer, arrowbuf.Buffer) {
	t.Helper()
	raw, err := hex.DecodeString(g.Data[l.data])
	require.NoError(t, err)
	b := ndtest.Upload(t, dev, raw)
	a, err := ndview.FromBuffer(b, dtype, l.offset, l.shape, l.strides)
	return ndtest.Own(t, a, err), b
}

func TestProductsMatchNumPy(t *testing.T) {
	g := readGolden(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, c := range g.Cases {
			t.Run(fmt.Sprintf("%d_%s_%s", i, c.operation, c.dtype), func(t *testing.T) { g.check(t, dev, &c) })
		}
	})
}

func (g *golden) check(t *testing.T, dev arrowbuf.Device, c *goldenCase) {
	dtype, _, err := ndview.ParseDType(c.dtype)
	require.NoError(t, err)
	a, _ := g.array(t, dev, dtype, c.a)
	b, _ := g.array(t, dev, dtype, c.b)
	raw, err := hex.DecodeString(c.result)
	require.NoError(t, err)
	expected, err := ndview.FromBytes(arrowbuf.CPU(), dtype, raw, c.shape...)
	want := numbersOf(t, ndtest.Own(t, expected, err))
	o := blas.Options{Alpha: c.alpha, Beta: c.beta, TransA: c.transA, TransB: c.transB}
	compare := func(what string, got *ndview.NDBuffer) {
		t.Helper()
		require.Equal(t, dtype, got.DType())
		require.Equal(t, c.shape, got.Shape())
		for i, v := range numbersOf(t, got) {
			require.True(t, equal(want[i], v), "%s: element %d: want %v, got %v: %+v %+v %+v", what, i, want[i], v, c.a, c.b, c.c)
		}
	}
	if c.operation == "matmul" {
		got, err := blas.MatMul(a, b, blas.Options{})
		compare("MatMul", ndtest.Own(t, got, err))
		out, err := ndview.Full(dev, dtype, 1, c.shape...)
		require.NoError(t, blas.MatMulInto(ndtest.Own(t, out, err), a, b, blas.Options{}))
		compare("MatMulInto", out)
		return
	}
	of := map[string]func(a, b *ndview.NDBuffer, o blas.Options) (*ndview.NDBuffer, error){"gemm": blas.Gemm, "gemv": blas.Gemv, "ger": blas.Ger, "dot": blas.Dot}[c.operation]
	into := map[string]func(out, a, b *ndview.NDBuffer, o blas.Options) error{"gemm": blas.GemmInto, "gemv": blas.GemvInto, "ger": blas.GerInto, "dot": blas.DotInto}[c.operation]
	if c.c == nil {
		got, err := of(a, b, o)
		compare("a new result", ndtest.Own(t, got, err))
		return
	}
	addend, memory := g.array(t, dev, dtype, c.c)
	before := ndtest.Download(t, memory)
	withC := o
	withC.C = addend
	got, err := of(a, b, withC)
	compare("a new result with C", ndtest.Own(t, got, err))
	assert.Equal(t, before, ndtest.Download(t, memory), "C is unchanged")
	require.NoError(t, into(addend, a, b, o))
	compare("in place", addend)
	// What the view does not show is unchanged.
	require.NoError(t, addend.Zero())
	after := ndtest.Download(t, memory)
	clean, cleanMemory := g.array(t, dev, dtype, c.c)
	require.NoError(t, clean.Zero())
	assert.Equal(t, ndtest.Download(t, cleanMemory), after)
}
