package gzip

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAssemblyDecodesStepsAsGo(t *testing.T) {
	if !fastSteps {
		t.Skip("the processor lacks BMI2")
	}
	stream, data := stepStream(t, 5000)
	random := rand.New(rand.NewPCG(9, 10))
	for round := range 300 {
		src := bytes.Clone(stream)
		if round > 0 {
			src[random.IntN(len(src))] ^= 1 << random.IntN(8)
		}
		var out [2][]byte
		var n [2]int
		var errs [2]error
		for i, fast := range []bool{true, false} {
			fastSteps = fast
			f := &inflater{limit: int64(2 * len(data)), dst: make([]byte, 2*len(data))}
			n[i], out[i], errs[i] = f.stream(src)
		}
		fastSteps = true
		require.Equal(t, errs[1], errs[0])
		require.Equal(t, n[1], n[0])
		require.True(t, bytes.Equal(out[1], out[0]))
	}
}

func BenchmarkAssemblySteps(b *testing.B) {
	if !fastSteps {
		b.Skip("the processor lacks BMI2")
	}
	stream, data := stepStream(b, 1<<18)
	dst := make([]byte, len(data))
	for name, fast := range map[string]bool{"asm": true, "go": false} {
		b.Run(name, func(b *testing.B) {
			fastSteps = fast
			defer func() { fastSteps = true }()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := rawFormat.decodeGo(dst, stream, int64(len(data)), false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
