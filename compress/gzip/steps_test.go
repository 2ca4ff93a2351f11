package gzip

import (
	"bytes"
	"compress/flate"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// deflated returns a deflate stream of the standard library.
func deflated(t testing.TB, data []byte, level int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, level)
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// roundedNumbers returns n floats of few values: a compressor finds a short match for most of
// them. Some are bytes that occur nowhere else, and some overlap what they repeat.
func roundedNumbers(n int) []byte {
	random := rand.New(rand.NewPCG(5, 6))
	data := make([]byte, 4*n)
	for i := 0; i < len(data); i += 4 {
		switch x := random.IntN(100); {
		case x == 0:
			le.PutUint32(data[i:], random.Uint32())
		case x < 4 && i >= 4:
			copy(data[i:], data[i-1-random.IntN(4):][:4])
		default:
			value := math.Round(64*(15+10*math.Sin(float64(i)/20000)+random.NormFloat64())) / 64
			le.PutUint32(data[i:], math.Float32bits(float32(value)))
		}
	}
	return data
}

// stepStream returns a stream whose blocks are decoded in steps, and its data.
func stepStream(t testing.TB, n int) (stream, data []byte) {
	t.Helper()
	data = roundedNumbers(n)
	stream = deflated(t, data, 1)
	f := &inflater{limit: int64(len(data)), dst: make([]byte, len(data))}
	_, _, err := f.stream(stream)
	require.NoError(t, err)
	require.NotEqual(t, [stepSize]step{}, f.steps, "the stream is not what the test is for")
	return stream, data
}

func TestStreamsOfShortMatchesDecodeAsInTheStandardLibrary(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	for _, n := range []int{700, 5000} {
		stream, data := stepStream(t, n)
		checkStream(t, stream, len(data))
		for range rounds {
			bad := bytes.Clone(stream)
			for range 1 + random.IntN(3) {
				bad[random.IntN(len(bad))] ^= 1 << random.IntN(8)
			}
			checkStream(t, bad[:len(bad)-random.IntN(2)*random.IntN(len(bad))], 2*len(data))
		}
	}
}

// randomCode returns the lengths of a complete code for some of n symbols.
func randomCode(random *rand.Rand, n, longest int) []uint8 {
	leaves := []uint8{1, 1}
	for range 2 + random.IntN(2*n) {
		if i := random.IntN(len(leaves)); len(leaves) < n && int(leaves[i]) < longest {
			leaves[i]++
			leaves = append(leaves, leaves[i])
		}
	}
	lengths := make([]uint8, n)
	for i, symbol := range random.Perm(n)[:len(leaves)] {
		lengths[symbol] = leaves[i]
	}
	return lengths
}

func TestAStepIsTheSymbolsThatItsBitsBeginWith(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	f := new(inflater)
	var matches, literals, others int
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		lit, dist := make([]uint8, 286), randomCode(random, 1+random.IntN(29)+1, maxCodeLength)
		// Most symbols are short matches.
		few := randomCode(random, 5+random.IntN(30), maxCodeLength)
		for i, n := range few {
			lit[(endOfBlock-len(few)/2+i)%len(lit)] = n
		}
		require.True(t, buildTable(f.lit[:], litBits, lit, litSymbols[:]))
		require.True(t, buildTable(f.dist[:], distBits, dist, distSymbols[:]))
		f.buildSteps(lit, dist)
		found := 0
		for i, s := range f.steps {
			if s&noStep != 0 {
				others++
				continue
			}
			in := &inflater{buf: uint64(i), n: 64} // extra bits are zero
			output, back := 0, 8
			if s&stepLiteral != 0 {
				e, _, err := in.symbol(f.lit[:], litBits)
				require.NoError(t, err)
				require.Equal(t, entry(s>>stepLiteralAt&255), e>>valueShift)
				require.NotZero(t, e&isLiteral)
				output = 1
				literals++
			}
			if output < int(s>>stepOutput&127) {
				e, length, err := in.symbol(f.lit[:], litBits)
				require.NoError(t, err)
				require.Zero(t, e&(isLiteral|isSpecial))
				_, distance, err := in.symbol(f.dist[:], distBits)
				require.NoError(t, err)
				back, output = distance-output, output+length
				found++
			}
			extra := i >> (s >> stepExtraAt & 63) & (1<<(s>>stepExtraBits&15) - 1)
			require.EqualValues(t, 64-in.n, s&stepConsumeMask)
			require.LessOrEqual(t, s>>stepExtraAt&255, step(stepBits))
			require.EqualValues(t, output, s>>stepOutput&127)
			require.EqualValues(t, back, s>>stepDistance+step(extra))
		}
		require.Equal(t, matchSteps(lit, dist), found)
		matches += found
	}
	require.Greater(t, matches, 100*rounds)
	require.Greater(t, literals, 100*rounds)
	require.Greater(t, others, 100*rounds)
}

func TestTheLibraryDecodesStreamsOfFewSteps(t *testing.T) {
	stream, data := stepStream(t, 20_000)
	_, err := rawFormat.decodeGo(nil, stream, int64(len(data)), true)
	require.NoError(t, err)
	text := bytes.Repeat([]byte("a text of words, and of matches that are long: "), 1000)
	for level := range 10 {
		_, err := rawFormat.decodeGo(nil, deflated(t, text, level), int64(len(text)), true)
		require.ErrorIs(t, err, errFewSteps)
	}
	// The reused inflater decodes any stream again.
	_, err = rawFormat.decodeGo(nil, deflated(t, text, 1), int64(len(text)), false)
	require.NoError(t, err)
}
