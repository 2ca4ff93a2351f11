package stridedcopy_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
)

// offsetsOf returns the offsets of an item in both operands.
func offsetsOf(axes []stridedcopy.Axis, item int64) (dst, src int64) {
	for i, a := range axes {
		n := item
		if i > 0 {
			n = item * int64(a.Magic) >> 32 >> a.Shift
		}
		dst += n * a.Dst
		src += n * a.Src
	}
	return dst, src
}

// swizzle returns where a byte of an image is stored.
func swizzle(p *stridedcopy.BoxTiles, at int64) int64 {
	if p.Spread == 1 {
		at ^= (at >> 7) * 18 & 0x70
	}
	return at
}

func divide(d stridedcopy.Divide, n int64) int64 {
	if d.Magic == 0 {
		return n
	}
	return n * int64(d.Magic) >> 32 >> d.Shift
}

// runBoxTiles does what kernels/copy/box_tiles.cu does, with addresses as data. It
// calls write with each unit's address in the destination and the address that was read
// for it.
func runBoxTiles(t *testing.T, p *stridedcopy.BoxTiles, width, dst, src int64, write func(to, from int64)) {
	axes := func(i int) []stridedcopy.Axis { return p.Axes[i][:p.Counts[i]] }
	require.LessOrEqual(t, p.Shared, int32(110<<10))
	require.LessOrEqual(t, p.Image+8*p.MostB+8*p.RunsA*p.B.Extent+4*p.MostB+4*p.MostRows, p.Shared)
	begin, end := src+p.Begin, src+p.End
	for id := range p.Blocks() {
		rest := divide(p.ByChunksA, id)
		batch := divide(p.ByChunksB, rest)
		a, b := id-rest*int64(p.ChunksA), rest-batch*int64(p.ChunksB)
		inA, inB := min(int64(p.A.Extent), int64(p.A.Whole)-a*int64(p.A.Extent)), min(int64(p.B.Extent), int64(p.B.Whole)-b*int64(p.B.Extent))
		require.Positive(t, inA)
		require.Positive(t, inB)
		runsA, runsB, ofB := int64(p.RunsA)*inB, int64(p.RunsB)*inA, inB
		if p.Same == 1 {
			runsB, ofB = int64(p.RunsB), inA
		}
		unitsA, bytesB := int64(p.UnitsA)*inA, int64(p.UnitsB)*ofB*width
		require.LessOrEqual(t, runsB, int64(p.MostB))
		require.LessOrEqual(t, runsA*int64(p.Rows), int64(p.MostRows))
		d, s := offsetsOf(axes(2), batch)
		d, s = dst+d+a*p.A.Dst+b*p.B.Dst, src+s+a*p.A.Src+b*p.B.Src
		skip := s & 15
		image := make([]int64, p.Image)
		for i := range runsB * int64(p.WordsB) {
			if id%2 == 1 {
				i = runsB*int64(p.WordsB) - 1 - i
			}
			run := divide(p.ByB, i)
			lies, from := offsetsOf(axes(0), run)
			lies += skip
			if (lies-(s+from))&15 != 0 {
				require.Failf(t, "a run lies elsewhere in a word", "%+v", p)
			}
			at := 16*(i-run*int64(p.WordsB)) - (s+from)&31
			if at <= -16 || at >= bytesB {
				continue
			}
			address := s + from + at
			for k := range int64(16) {
				if address >= begin && address+16 <= end || at+k >= 0 && at+k < bytesB {
					image[swizzle(p, lies+at)+k] = address + k
				}
			}
		}
		if p.Square > 0 {
			requireSquares(t, p, width, d, skip, runsA, unitsA)
			writeSquares(p, width, d, skip, runsA, unitsA, image, write)
			continue
		}
		word := max(width, 8)
		for i := range runsA * int64(p.WordsA) {
			run := divide(p.ByA, i)
			to, _ := offsetsOf(axes(1), run*int64(p.Rows))
			to += d
			first := ((i-run*int64(p.WordsA))*word - to&31) / width
			for u := first; u < first+word/width; u++ {
				if u < 0 || u >= unitsA {
					continue
				}
				row, in := run*int64(p.Rows), u
				if p.Rows > 1 {
					before := divide(p.ByRow, u)
					row, in = row+before, u-before*int64(p.Row)
				}
				_, at := offsetsOf(axes(1), row)
				at = swizzle(p, at+skip+in*int64(p.Step))
				for k := range width {
					if image[at+k] != image[at]+k {
						require.Failf(t, "a unit is not whole", "%+v", p)
					}
				}
				write(to+u*width, image[at])
			}
		}
	}
}

// writeSquares writes squares as the kernel does, warp by warp.
func writeSquares(p *stridedcopy.BoxTiles, width, dst, skip, runsA, unitsA int64, image []int64, write func(to, from int64)) {
	rows, axes, ahead := int64(p.Rows), p.Axes[1][:p.Counts[1]], int64(p.Overlap)
	word := int64(p.Square)
	side, lines, words, writes := min(word, 4*width)/width, runsA, unitsA*width/word, int64(32)
	if p.InRows == 1 {
		lines, words = lines*rows, int64(p.Row)*width/word
	}
	if ahead > 0 {
		writes -= sector / word
	}
	all := lines / side * int64(p.Words)
	for begin := int64(0); begin < all; begin += writes {
		var read [32][8][8]int64 // by lane and run of the square: source addresses of units
		for pass := range 2 {
			for lane := range int64(32) {
				mine := begin + lane - ahead
				i := min(max(mine, 0), all-1)
				group := divide(p.ByWord, i)
				at, run, skipped := i-group*int64(p.Words), group*side, int64(0)
				if p.InRows == 1 {
					run = divide(p.ByRows, group*side)
					skipped = group*side - run*rows
				}
				first := skipped * int64(p.Row)
				if first >= unitsA {
					continue
				}
				if pass == 0 && at < words {
					for u := range word / width {
						// The line of the square in the image, with one unit of each
						// run.
						before, unit := skipped, at*word/width+u
						if p.InRows == 0 {
							before = divide(p.ByRow, unit/side*side)
							unit -= before * int64(p.Row)
						}
						_, lies := offsetsOf(axes, run*rows+before)
						for k := range side {
							read[lane][k][u] = image[swizzle(p, lies+skip+unit*int64(p.Step)+k*width)]
						}
					}
				}
				if pass == 0 || mine >= all || lane < ahead || lane >= ahead+writes {
					continue
				}
				for k := range side {
					to, _ := offsetsOf(axes, (run+k)*rows)
					if p.InRows == 1 {
						to, _ = offsetsOf(axes, run*rows)
						to += (first + k*int64(p.Row)) * width
					}
					back := int64(0)
					if ahead > 0 {
						back = (dst + to) % sector / word
					}
					for u := int64(0); u < word/width && at >= back && at-back < words; u++ {
						write(dst+to+(at-back)*word+u*width, read[(lane-back)&31][k][u])
					}
				}
			}
		}
	}
}

// requireSquares checks that lines of the image have a unit of each of several
// neighbouring runs, or rows of a run, and that whole words are written.
func requireSquares(t *testing.T, p *stridedcopy.BoxTiles, width, dst, skip, runsA, unitsA int64) {
	word, rows, axes := int64(p.Square), int64(p.Rows), p.Axes[1][:p.Counts[1]]
	line := min(word, 4*width)
	side := line / width
	lines, units := runsA, int64(p.UnitsA)*int64(p.A.Extent)
	if p.InRows == 1 {
		lines, units = runsA*rows, int64(p.Row)
		require.Zero(t, unitsA/int64(p.Row)%side)
		require.Equal(t, runsA-1, divide(p.ByRows, runsA*rows-1))
	}
	if lines%side != 0 || units*width%word != 0 || unitsA*width%word != 0 || int64(p.Row)%side != 0 || int64(p.Step)%line != 0 {
		require.Failf(t, "no whole squares", "%+v", p)
	}
	words := units * width / word
	if p.Overlap > 0 {
		ofSector := sector / word
		require.Equal(t, ofSector-1, int64(p.Overlap))
		require.Zero(t, int64(p.Words)%ofSector)
		words += ofSector - 1 // words that a run may touch
		require.Less(t, int64(p.Words)-words, ofSector)
	} else if p.InRows == 1 {
		require.Zero(t, int64(p.Row)*width%sector)
	}
	require.GreaterOrEqual(t, int64(p.Words), words)
	require.Equal(t, lines-1, divide(p.ByWord, lines*int64(p.Words)-1))
	for run := range runsA {
		first := run / side * side
		to, _ := offsetsOf(axes, run*rows)
		for in := range rows {
			begin, of := first*rows+in, run-first
			if p.InRows == 1 {
				begin, of = run*rows+in/side*side, in%side
			}
			_, at := offsetsOf(axes, run*rows+in)
			_, line0 := offsetsOf(axes, begin)
			if (dst+to)%word != 0 || p.Overlap == 0 && (dst+to)%sector != 0 || (skip+line0)%line != 0 || at != line0+of*width {
				require.Failf(t, "lines are not side by side", "%+v", p)
			}
		}
	}
}

func TestBoxTilesCopyEachUnitOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	planned, same, cut, squares := 0, 0, 0, map[[3]int64]int{}
	for i := range 2000 {
		most := int64(1 << 12)
		if i%60 == 0 {
			most = 1 << 21 // large enough that box tiles use all the memory
		}
		width := int64(1) << r.IntN(5)
		shape := make([]int64, 2+r.IntN(4))
		for i := range shape {
			shape[i] = 1 + r.Int64N([]int64{3, 6, 20, 70, 300, 3000, most}[r.IntN(7)])
		}
		whole := int64(1)
		if i%3 == 2 { // as squares need it
			whole = 4 << r.IntN(max(2, 6-len(shape)))
		}
		for i := range shape {
			shape[i] = (shape[i] + whole - 1) / whole * whole
		}
		tooMany := func() bool {
			units := 1.0 // may exceed 64 bits
			for _, extent := range shape {
				units *= float64(extent)
			}
			return units > float64(most) && slices.Max(shape) > whole
		}
		for tooMany() {
			i := r.IntN(len(shape))
			shape[i] = (shape[i]/2 + whole - 1) / whole * whole
		}
		src := layout.CStrides(width, shape)
		r.Shuffle(len(src), func(i, j int) {
			shape[i], shape[j] = shape[j], shape[i]
			src[i], src[j] = src[j], src[i]
		})
		dst := layout.CStrides(width, shape)
		for i := range shape { // a reversed axis, a repeated one, or an outer gap
			if src[i] != width && r.IntN(4) == 0 {
				src[i] *= -r.Int64N(2)
			}
		}
		if r.IntN(4) == 0 {
			dst[0] += width * r.Int64N(40)
		}
		if outer := slices.Index(src, slices.Max(src)); src[outer] > width && r.IntN(4) == 0 {
			src[outer] += width * r.Int64N(40)
		}
		n := layout.Collapse(shape, dst, src)
		aligned := max(width, 1<<r.IntN(5))
		to, from := int64(1<<40)+aligned*r.Int64N(64), int64(1<<30)+aligned*r.Int64N(64)
		room := stridedcopy.BoxTileMemory(width*layout.Product(shape), 227<<10)
		switch {
		case i%120 == 0:
			room = 110 << 10 // otherwise only for copies that take long here
		case i%3 == 2:
			room = 2<<10 + r.Int64N(44<<10)
		}
		p, ok := stridedcopy.NewBoxTiles(width, uint64(to), uint64(from), n, room, "narrow_tiles", nil)
		if !ok {
			continue
		}
		planned++
		same += int(p.Same)
		squares[[3]int64{width, int64(p.Square), int64(p.InRows)}]++
		if p.ChunksA > 1 && p.ChunksB > 1 {
			cut++
		}
		low, high, _ := layout.ByteBounds(width, 0, n.Shape, n.Strides[0])
		written := make([]int64, (high-low)/width)
		units, done := layout.Product(n.Shape), int64(0)
		runBoxTiles(t, p, width, to, from, func(at, value int64) {
			if unit := &written[(at-to-low)/width]; *unit == 0 {
				*unit = value
				done++
			} else {
				require.Failf(t, "a unit is written twice", "%+v", p)
			}
		})
		require.Equal(t, units, done, "width %d %+v %+v", width, n, p)
		for i := range units {
			d, s, rest := to, from, i
			for k := len(n.Shape) - 1; k >= 0; k-- {
				index := rest % n.Shape[k]
				rest /= n.Shape[k]
				d += index * n.Strides[0][k]
				s += index * n.Strides[1][k]
			}
			if written[(d-to-low)/width] != s {
				require.Failf(t, "wrong", "width %d %+v %+v", width, n, p)
			}
		}
		require.Equal(t, units, layout.Product(p.Nest().Shape))
	}
	require.Greater(t, planned, 300)
	require.Greater(t, same, 20)
	for _, word := range [][2]int64{{1, 4}, {1, 8}, {2, 4}, {2, 8}, {4, 8}, {4, 16}, {8, 16}} {
		for within := range int64(2) {
			require.Positive(t, squares[[3]int64{word[0], word[1], within}], "%v %d", word, within)
		}
	}
	require.Greater(t, cut, 20)
}

// The rest of an axis may not be whole words although a tile's part of it is.
func TestSquaresEndAtRunEnds(t *testing.T) {
	words := map[int32]int{}
	for room := int64(2 << 10); room < 20<<10; room += 1 << 10 {
		const planes, rows, columns = 12, 1001, 12
		n := layout.Nest{
			Shape:   []int64{columns, rows, planes},
			Strides: [][]int64{{rows*planes + 4, planes, 1}, {1, columns, columns*rows + 4}}, Offsets: []int64{0, 0},
		}
		p, ok := stridedcopy.NewBoxTiles(1, 0, 0, n, room, "narrow_tiles", nil)
		require.True(t, ok)
		words[p.Square]++
		units := 0
		runBoxTiles(t, p, 1, 1<<40, 1<<30, func(int64, int64) { units++ })
		require.Equal(t, planes*rows*columns, units)
	}
	require.Positive(t, words[4], "%v", words)
}

// Box tiles use more memory if that makes short runs longer.
func TestBoxTilesUseMemoryForLongRuns(t *testing.T) {
	turned := func(width, planes, rows, columns int64) layout.Nest { // with the last axis first
		return layout.Nest{
			Shape:   []int64{columns, rows, planes},
			Strides: [][]int64{{width * rows * planes, width * planes, width}, {width, width * columns, width * columns * rows}}, Offsets: []int64{0, 0},
		}
	}
	plan := func(width int64, n layout.Nest, room int64) *stridedcopy.BoxTiles {
		p, ok := stridedcopy.NewBoxTiles(width, 0, 0, n, room, "narrow_tiles", nil)
		require.True(t, ok)
		return p
	}
	small, large := stridedcopy.BoxTileMemory(8<<20, 227<<10), stridedcopy.BoxTileMemory(1<<30, 227<<10)
	require.EqualValues(t, 16<<10, small)
	require.EqualValues(t, 110<<10, large)
	require.EqualValues(t, 46<<10, stridedcopy.BoxTileMemory(1<<30, 64<<10), "two would not fit")
	require.EqualValues(t, 99<<10/2-1<<10, stridedcopy.BoxTileMemory(1<<30, 99<<10))

	n := turned(1, 100, 100000, 100)
	p := plan(1, n, small)
	require.LessOrEqual(t, p.Shared, int32(small))
	require.EqualValues(t, 256, p.Plan().Threads)
	p = plan(1, n, large)
	require.Greater(t, p.Shared, int32(46<<10))
	require.EqualValues(t, 512, p.Plan().Threads)
	require.EqualValues(t, 8, p.Square)

	p = plan(4, turned(4, 20, 100000, 20), large) // long runs
	require.LessOrEqual(t, p.Shared, int32(46<<10))
}

// An axis that is whole in a box is not split, even if it is not a multiple of a
// sector.
func TestBoxTilesKeepWholeAxes(t *testing.T) {
	src, dst := layout.CStrides(1, []int64{13, 47, 27458, 16}), layout.CStrides(1, []int64{27458, 47, 13, 16})
	n := layout.Collapse([]int64{27458, 47, 13, 16}, dst, []int64{src[2], src[1], src[0], src[3]})
	p, ok := stridedcopy.NewBoxTiles(1, 0, 0, n, 110<<10, "word_rows", nil)
	require.True(t, ok)
	require.NotEqual(t, int32(13), p.A.Whole)
	require.NotEqual(t, int32(13), p.B.Whole)
}

// Large units need less memory for long runs, and are copied faster with less.
func TestBoxTilesOfLargeUnitsUseLessMemory(t *testing.T) {
	for width, most := range map[int64]int32{4: 46 << 10, 8: 32 << 10, 16: 16 << 10} {
		const rows = 1 << 22
		for extent, long := range map[int64]bool{3: true, 200: false} {
			n := layout.Nest{Shape: []int64{extent, rows}, Strides: [][]int64{{width * rows, width}, {width, width * extent}}, Offsets: []int64{0, 0}}
			p, ok := stridedcopy.NewBoxTiles(width, 0, 0, n, 46<<10, "narrow_tiles", nil)
			require.True(t, ok)
			require.LessOrEqual(t, p.Shared, int32(46<<10))
			require.Equal(t, long || width == 4, p.Shared <= most, "%d %d: %d", width, extent, p.Shared)
		}
	}
}
