package moves_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/moves"
)

// placeOf is where an item over some axes is in both operands.
func placeOf(axes []moves.Axis, item int64) (dst, src int64) {
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

// lie is where a byte of an image is.
func lie(p *moves.Bricks, at int64) int64 {
	if p.Spread == 1 {
		at ^= (at >> 7) * 18 & 0x70
	}
	return at
}

func by(d moves.Divide, n int64) int64 {
	if d.Magic == 0 {
		return n
	}
	return n * int64(d.Magic) >> 32 >> d.Shift
}

// layBricks does what kernels/bricks.cu does, with addresses as the bytes: it calls
// write with each unit's address in the destination and what was read for it.
func layBricks(t *testing.T, p *moves.Bricks, width, dst, src int64, write func(to, from int64)) {
	axes := func(i int) []moves.Axis { return p.Axes[i][:p.Counts[i]] }
	require.LessOrEqual(t, p.Shared, int32(110<<10))
	require.LessOrEqual(t, p.Image+8*p.MostB+8*p.RunsA*p.B.Extent+4*p.MostB+4*p.MostRows, p.Shared)
	begin, end := src+p.Begin, src+p.End
	for id := range p.Blocks() {
		rest := by(p.ByChunksA, id)
		batch := by(p.ByChunksB, rest)
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
		d, s := placeOf(axes(2), batch)
		d, s = dst+d+a*p.A.Dst+b*p.B.Dst, src+s+a*p.A.Src+b*p.B.Src
		skip := s & 15
		image := make([]int64, p.Image)
		for i := range runsB * int64(p.WordsB) {
			if id%2 == 1 {
				i = runsB*int64(p.WordsB) - 1 - i
			}
			run := by(p.ByB, i)
			lies, from := placeOf(axes(0), run)
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
					image[lie(p, lies+at)+k] = address + k
				}
			}
		}
		if p.Square > 0 {
			requireSquares(t, p, width, d, skip, runsA, unitsA)
			laySquares(p, width, d, skip, runsA, unitsA, image, write)
			continue
		}
		word := max(width, 8)
		for i := range runsA * int64(p.WordsA) {
			run := by(p.ByA, i)
			to, _ := placeOf(axes(1), run*int64(p.Rows))
			to += d
			first := ((i-run*int64(p.WordsA))*word - to&31) / width
			for u := first; u < first+word/width; u++ {
				if u < 0 || u >= unitsA {
					continue
				}
				row, in := run*int64(p.Rows), u
				if p.Rows > 1 {
					before := by(p.ByRow, u)
					row, in = row+before, u-before*int64(p.Row)
				}
				_, at := placeOf(axes(1), row)
				at = lie(p, at+skip+in*int64(p.Step))
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

// laySquares writes as the kernel's squares do, warp after warp.
func laySquares(p *moves.Bricks, width, dst, skip, runsA, unitsA int64, image []int64, write func(to, from int64)) {
	rows, axes, ahead := int64(p.Rows), p.Axes[1][:p.Counts[1]], int64(p.Ahead)
	word := int64(p.Square)
	side, lines, words, writes := min(word, 4*width)/width, runsA, unitsA*width/word, int64(32)
	if p.Within == 1 {
		lines, words = lines*rows, int64(p.Row)*width/word
	}
	if ahead > 0 {
		writes -= sector / word
	}
	all := lines / side * int64(p.Words)
	for begin := int64(0); begin < all; begin += writes {
		var read [32][8][8]int64 // by lanes, of each run of a square: where units are in the source
		for pass := range 2 {
			for lane := range int64(32) {
				mine := begin + lane - ahead
				i := min(max(mine, 0), all-1)
				group := by(p.ByWord, i)
				at, run, skipped := i-group*int64(p.Words), group*side, int64(0)
				if p.Within == 1 {
					run = by(p.ByRows, group*side)
					skipped = group*side - run*rows
				}
				first := skipped * int64(p.Row)
				if first >= unitsA {
					continue
				}
				if pass == 0 && at < words {
					for u := range word / width {
						// The line of the square, in the image, that has the unit of each run.
						before, unit := skipped, at*word/width+u
						if p.Within == 0 {
							before = by(p.ByRow, unit/side*side)
							unit -= before * int64(p.Row)
						}
						_, lies := placeOf(axes, run*rows+before)
						for k := range side {
							read[lane][k][u] = image[lie(p, lies+skip+unit*int64(p.Step)+k*width)]
						}
					}
				}
				if pass == 0 || mine >= all || lane < ahead || lane >= ahead+writes {
					continue
				}
				for k := range side {
					to, _ := placeOf(axes, (run+k)*rows)
					if p.Within == 1 {
						to, _ = placeOf(axes, run*rows)
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

// requireSquares: lines of the image have a unit of each of the runs side by side, or
// of rows within a run, and what is written are whole words.
func requireSquares(t *testing.T, p *moves.Bricks, width, dst, skip, runsA, unitsA int64) {
	word, rows, axes := int64(p.Square), int64(p.Rows), p.Axes[1][:p.Counts[1]]
	line := min(word, 4*width)
	side := line / width
	lines, units := runsA, int64(p.UnitsA)*int64(p.A.Extent)
	if p.Within == 1 {
		lines, units = runsA*rows, int64(p.Row)
		require.Zero(t, unitsA/int64(p.Row)%side)
		require.Equal(t, runsA-1, by(p.ByRows, runsA*rows-1))
	}
	if lines%side != 0 || units*width%word != 0 || unitsA*width%word != 0 || int64(p.Row)%side != 0 || int64(p.Step)%line != 0 {
		require.Failf(t, "no whole squares", "%+v", p)
	}
	words := units * width / word
	if p.Ahead > 0 {
		ofSector := sector / word
		require.Equal(t, ofSector-1, int64(p.Ahead))
		require.Zero(t, int64(p.Words)%ofSector)
		words += ofSector - 1 // that a run may touch
		require.Less(t, int64(p.Words)-words, ofSector)
	} else if p.Within == 1 {
		require.Zero(t, int64(p.Row)*width%sector)
	}
	require.GreaterOrEqual(t, int64(p.Words), words)
	require.Equal(t, lines-1, by(p.ByWord, lines*int64(p.Words)-1))
	for run := range runsA {
		first := run / side * side
		to, _ := placeOf(axes, run*rows)
		for in := range rows {
			begin, of := first*rows+in, run-first
			if p.Within == 1 {
				begin, of = run*rows+in/side*side, in%side
			}
			_, at := placeOf(axes, run*rows+in)
			_, line0 := placeOf(axes, begin)
			if (dst+to)%word != 0 || p.Ahead == 0 && (dst+to)%sector != 0 || (skip+line0)%line != 0 || at != line0+of*width {
				require.Failf(t, "lines are not side by side", "%+v", p)
			}
		}
	}
}

func TestBricksMoveEachUnitOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	planned, same, cut, squares := 0, 0, 0, map[[3]int64]int{}
	for i := range 2000 {
		most := int64(1 << 12)
		if i%60 == 0 {
			most = 1 << 21 // of which bricks are as large as there is room for
		}
		width := int64(1) << r.IntN(5)
		shape := make([]int64, 2+r.IntN(4))
		for i := range shape {
			shape[i] = 1 + r.Int64N([]int64{3, 6, 20, 70, 300, 3000, most}[r.IntN(7)])
		}
		whole := int64(1)
		if i%3 == 2 { // as squares want it
			whole = 4 << r.IntN(max(2, 6-len(shape)))
		}
		for i := range shape {
			shape[i] = (shape[i] + whole - 1) / whole * whole
		}
		tooMany := func() bool {
			units := 1.0 // which may be beyond 64 bits
			for _, extent := range shape {
				units *= float64(extent)
			}
			return units > float64(most) && slices.Max(shape) > whole
		}
		for tooMany() {
			i := r.IntN(len(shape))
			shape[i] = (shape[i]/2 + whole - 1) / whole * whole
		}
		src := layout.C(width, shape)
		r.Shuffle(len(src), func(i, j int) {
			shape[i], shape[j] = shape[j], shape[i]
			src[i], src[j] = src[j], src[i]
		})
		dst := layout.C(width, shape)
		for i := range shape { // an axis turned, or repeated, or an outer gap
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
		room := moves.BrickRoom(width*layout.Product(shape), 227<<10)
		switch {
		case i%120 == 0:
			room = 110 << 10 // as it is of so much that it would take long here
		case i%3 == 2:
			room = 2<<10 + r.Int64N(44<<10)
		}
		p, ok := moves.NewBricks(width, uint64(to), uint64(from), n, room, "slim", nil)
		if !ok {
			continue
		}
		planned++
		same += int(p.Same)
		squares[[3]int64{width, int64(p.Square), int64(p.Within)}]++
		if p.ChunksA > 1 && p.ChunksB > 1 {
			cut++
		}
		low, high, _ := layout.Extent(width, 0, n.Shape, n.Strides[0])
		written := make([]int64, (high-low)/width)
		units, done := layout.Product(n.Shape), int64(0)
		layBricks(t, p, width, to, from, func(at, value int64) {
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

// What is left of an axis may be no whole words where a brick's part of it is.
func TestSquaresEndWithTheirRuns(t *testing.T) {
	words := map[int32]int{}
	for room := int64(2 << 10); room < 20<<10; room += 1 << 10 {
		const planes, rows, columns = 12, 1001, 12
		n := layout.Nest{
			Shape:   []int64{columns, rows, planes},
			Strides: [][]int64{{rows*planes + 4, planes, 1}, {1, columns, columns*rows + 4}}, Offsets: []int64{0, 0},
		}
		p, ok := moves.NewBricks(1, 0, 0, n, room, "slim", nil)
		require.True(t, ok)
		words[p.Square]++
		units := 0
		layBricks(t, p, 1, 1<<40, 1<<30, func(int64, int64) { units++ })
		require.Equal(t, planes*rows*columns, units)
	}
	require.Positive(t, words[4], "%v", words)
}

// Bricks take more room where that makes short runs longer.
func TestBricksTakeRoomForLongRuns(t *testing.T) {
	turned := func(width, planes, rows, columns int64) layout.Nest { // with the last axis first
		return layout.Nest{
			Shape:   []int64{columns, rows, planes},
			Strides: [][]int64{{width * rows * planes, width * planes, width}, {width, width * columns, width * columns * rows}}, Offsets: []int64{0, 0},
		}
	}
	plan := func(width int64, n layout.Nest, room int64) *moves.Bricks {
		p, ok := moves.NewBricks(width, 0, 0, n, room, "slim", nil)
		require.True(t, ok)
		return p
	}
	small, large := moves.BrickRoom(8<<20, 227<<10), moves.BrickRoom(1<<30, 227<<10)
	require.EqualValues(t, 16<<10, small)
	require.EqualValues(t, 110<<10, large)
	require.EqualValues(t, 46<<10, moves.BrickRoom(1<<30, 64<<10), "two would not fit")
	require.EqualValues(t, 99<<10/2-1<<10, moves.BrickRoom(1<<30, 99<<10))

	n := turned(1, 100, 100000, 100)
	p := plan(1, n, small)
	require.LessOrEqual(t, p.Shared, int32(small))
	require.EqualValues(t, 256, p.Plan().Threads)
	p = plan(1, n, large)
	require.Greater(t, p.Shared, int32(46<<10))
	require.EqualValues(t, 512, p.Plan().Threads)
	require.EqualValues(t, 8, p.Square)

	p = plan(4, turned(4, 20, 100000, 20), large) // whose runs are long
	require.LessOrEqual(t, p.Shared, int32(46<<10))
}

func TestBricksReplaceWhatIsSlower(t *testing.T) {
	nest := func(shape, dst, src []int64) layout.Nest {
		return layout.Nest{Shape: shape, Strides: [][]int64{dst, src}, Offsets: []int64{0, 0}}
	}
	turned := nest([]int64{3, 1 << 20}, []int64{4 << 20, 4}, []int64{4, 12})
	for _, tt := range []struct {
		name    string
		n       layout.Nest
		instead moves.Kernel
		bricks  bool
	}{
		{"an axis of 3 items", turned, "slim", true},
		{"a kernel that is as fast as memory", turned, "chains", false},
		{"a source turned around", nest([]int64{3, 1 << 20}, []int64{4 << 20, 4}, []int64{-4, 12}), "slim", false},
		{"each second unit of the source", nest([]int64{3, 1 << 20}, []int64{4 << 20, 4}, []int64{8, 24}), "slim", false},
		{"short rows of a long run", nest([]int64{64, 1 << 14, 3}, []int64{12 << 14, 12, 4}, []int64{12, 12 << 6, 4}), "rows", true},
		{"short rows with gaps", nest([]int64{1 << 20, 3}, []int64{12, 4}, []int64{400, 4}), "rows", false},
		{"an axis of 65 items", nest([]int64{65, 1 << 20}, []int64{4 << 20, 4}, []int64{4, 4 * 65}), "sectors", true},
		{"an axis that fills a tile", nest([]int64{63, 1 << 20}, []int64{4 << 20, 4}, []int64{4, 4 * 63}), "sectors", false},
		{"runs that are too short", nest([]int64{1 << 12, 1 << 12}, []int64{4 << 12, 4}, []int64{4, 4 << 12}), "tiles", false},
	} {
		_, ok := moves.NewBricks(4, 0, 0, tt.n, 46<<10, tt.instead, nil)
		require.Equal(t, tt.bricks, ok, tt.name)
	}
}

// An axis that a brick has whole stays so, though it is no multiple of a sector.
func TestBricksCutNoAxisThatTheyHaveWhole(t *testing.T) {
	src, dst := layout.C(1, []int64{13, 47, 27458, 16}), layout.C(1, []int64{27458, 47, 13, 16})
	n := layout.Collapse([]int64{27458, 47, 13, 16}, dst, []int64{src[2], src[1], src[0], src[3]})
	p, ok := moves.NewBricks(1, 0, 0, n, 110<<10, "picks", nil)
	require.True(t, ok)
	require.NotEqual(t, int32(13), p.A.Whole)
	require.NotEqual(t, int32(13), p.B.Whole)
}

// Tiles across an axis that hardly fills them are slower than bricks, sooner where
// those have a large room.
func TestBricksReplaceTilesThatAreHardlyFilled(t *testing.T) {
	for _, tt := range []struct {
		width, planes, columns int64
		small, large           bool
	}{
		{4, 150, 72, true, true},
		{4, 100, 100, false, true},
		{4, 120, 120, false, true},
		{4, 126, 126, false, false},
		{4, 180, 180, false, false},
		{4, 136, 136, false, true},
		{8, 100, 100, false, true},
		{8, 120, 120, false, true},
		{8, 180, 180, false, false},
		{8, 110, 110, false, false}, // whose rows begin anywhere
	} {
		const rows = 26843
		n := layout.Nest{
			Shape: []int64{tt.columns, rows, tt.planes},
			Strides: [][]int64{
				{tt.width * rows * tt.planes, tt.width * tt.planes, tt.width},
				{tt.width, tt.width * tt.columns, tt.width * tt.columns * rows},
			},
			Offsets: []int64{0, 0},
		}
		tiles, kernel, ok := moves.NewTiles(tt.width, 0, 0, n, memory)
		require.True(t, ok)
		for room, bricks := range map[int64]bool{46 << 10: tt.small, 110 << 10: tt.large} {
			_, ok := moves.NewBricks(tt.width, 0, 0, n, room, kernel, tiles)
			require.Equal(t, bricks, ok, "%+v %s %d", tt, kernel, room)
		}
	}
}

// What is the fastest of these permuted arrays was measured on an H200.
func TestTheFastestKernelIsChosen(t *testing.T) {
	const none, tight, small, large = 0, 16 << 10, 46 << 10, 110 << 10 // rooms that bricks may take
	for _, tt := range []struct {
		width  int64
		shape  []int64
		order  []int
		rival  moves.Kernel
		within int32 // a room, and more than the next
	}{
		{1, []int64{32768, 32768}, []int{1, 0}, "words", none},
		{1, []int64{272, 104, 14960}, []int{0, 2, 1}, "words", none},
		{1, []int64{300, 104, 13440}, []int{0, 2, 1}, "words", none},
		{1, []int64{55192, 7600}, []int{1, 0}, "runs", none},
		{1, []int64{183092, 2932}, []int{1, 0}, "runs", none}, // squares of 4 bytes
		{1, []int64{356, 7656, 154}, []int{2, 0, 1}, "runs", none},
		{1, []int64{103, 1755, 2329}, []int{2, 0, 1}, "runs", none},
		{1, []int64{957, 5, 473, 193}, []int{0, 1, 3, 2}, "runs", none},
		{1, []int64{149280, 3592}, []int{1, 0}, "runs", none},
		{1, []int64{24160, 17360}, []int{1, 0}, "runs", large},            // squares that begin at sectors
		{1, []int64{608, 870, 796}, []int{2, 1, 0}, "runs", large},        // tiles that are hardly filled
		{1, []int64{14, 748, 182, 208}, []int{3, 0, 1, 2}, "runs", large}, // long runs
		{1, []int64{464, 13296, 64}, []int{1, 2, 0}, "runs", large},       // A ends in half of them
		{1, []int64{192, 6908, 314}, []int{1, 2, 0}, "runs", small},       // squares within runs
		{1, []int64{7003, 523, 147}, []int{0, 2, 1}, "runs", small},       // few rows
		{1, []int64{36, 11650844}, []int{1, 0}, "lines", none},
		{1, []int64{2000, 120, 1750}, []int{0, 2, 1}, "lines", none},
		{1, []int64{142, 1986, 1884}, []int{1, 2, 0}, "lines", none},
		{1, []int64{68, 6118894}, []int{1, 0}, "lines", small},
		{1, []int64{4, 1162, 240, 412}, []int{0, 1, 3, 2}, "lines", large},
		{1, []int64{94, 174, 25678}, []int{1, 2, 0}, "oddlines", none},
		{1, []int64{201, 3147, 667}, []int{1, 0, 2}, "spans", small},
		{1, []int64{60, 3244, 2200}, []int{1, 0, 2}, "spans", none},
		{2, []int64{105520, 1984}, []int{1, 0}, "words", small},
		{2, []int64{52, 128, 576, 54}, []int{1, 3, 0, 2}, "runs", small}, // squares of 4 bytes, and few columns
		{2, []int64{20, 2424, 4368}, []int{0, 2, 1}, "runs", large},
		{2, []int64{50, 742, 5604}, []int{2, 1, 0}, "runs", none},
		{2, []int64{60, 2142, 1640}, []int{1, 2, 0}, "words", small},
		{2, []int64{99108, 2710}, []int{1, 0}, "runs", none},
		{2, []int64{142, 1477760}, []int{1, 0}, "runs", small},
		{2, []int64{1125, 343, 545}, []int{2, 1, 0}, "runs", none},
		{2, []int64{255, 127, 127, 127}, []int{2, 1, 3, 0}, "runs", large}, // of one tile
		{2, []int64{85, 2468075}, []int{1, 0}, "oddlines", small},
		{4, []int64{284, 6, 872, 90}, []int{1, 2, 3, 0}, "sectors", large},
		{4, []int64{595, 317, 559}, []int{0, 2, 1}, "sectors", large},
		{4, []int64{195, 3549, 153}, []int{2, 1, 0}, "sectors", none},
		{4, []int64{331, 7, 249, 173}, []int{3, 0, 1, 2}, "sectors", none},
		{4, []int64{48, 15024, 144}, []int{2, 0, 1}, "tiles", large},
		{4, []int64{104, 190, 1078, 6}, []int{1, 2, 3, 0}, "tiles", large}, // squares within runs
		{4, []int64{184, 34, 64, 274}, []int{0, 3, 2, 1}, "tiles", none},
		{4, []int64{128, 128, 128, 64}, []int{2, 1, 3, 0}, "tiles", none},
		{8, []int64{162, 682, 30, 18}, []int{3, 1, 2, 0}, "tiles", large},
		{8, []int64{394, 8, 18, 1046}, []int{3, 2, 1, 0}, "sectors", none},
		{16, []int64{3, 22369621}, []int{1, 0}, "slim", tight},
	} {
		src := layout.C(tt.width, tt.shape)
		var shape, strides []int64
		for _, k := range tt.order {
			shape, strides = append(shape, tt.shape[k]), append(strides, src[k])
		}
		n := layout.Collapse(shape, layout.C(tt.width, shape), strides)
		tiles, kernel, ok := moves.NewTiles(tt.width, 0, 0, n, memory)
		if !ok {
			_, kernel = moves.NewRows(tt.width, n)
		}
		require.Equal(t, tt.rival, kernel, "%+v", tt)
		p, ok := moves.NewBricks(tt.width, 0, 0, n, moves.BrickRoom(tt.width*layout.Product(shape), 227<<10), kernel, tiles)
		require.Equal(t, tt.within > none, ok, "%+v", tt)
		if ok {
			require.LessOrEqual(t, p.Shared, tt.within, "%+v", tt)
			require.Equal(t, tt.within == large, p.Shared > small, "%+v", tt)
			kernel = "bricks"
		}
		require.Equal(t, kernel, moves.New(tt.width, 0, 0, n, memory).Kernel, "%+v", tt)
	}
}

// Where only short runs have room, bricks are faster than these as they are than others.
func TestShortRunsAreBeatenAsLongOnes(t *testing.T) {
	for shape, beaten := range map[[3]int64]bool{{608, 870, 796}: true, {103, 1755, 2329}: false} {
		src := layout.C(1, shape[:])
		turned, strides := []int64{shape[2], shape[1], shape[0]}, []int64{src[2], src[1], src[0]}
		n := layout.Collapse(turned, layout.C(1, turned), strides)
		for memory, want := range map[int64]moves.Kernel{memory: "runs", 99 << 10: "shortruns"} {
			tiles, kernel, ok := moves.NewTiles(1, 0, 0, n, memory)
			require.True(t, ok)
			require.Equal(t, want, kernel)
			_, ok = moves.NewBricks(1, 0, 0, n, 110<<10, kernel, tiles)
			require.Equal(t, beaten, ok, "%s of %v", kernel, shape)
		}
	}
}

// Large units need less room for long runs, and are moved faster in less.
func TestBricksOfLargeUnitsTakeLessRoom(t *testing.T) {
	for width, most := range map[int64]int32{4: 46 << 10, 8: 32 << 10, 16: 16 << 10} {
		const rows = 1 << 22
		for extent, long := range map[int64]bool{3: true, 200: false} {
			n := layout.Nest{Shape: []int64{extent, rows}, Strides: [][]int64{{width * rows, width}, {width, width * extent}}, Offsets: []int64{0, 0}}
			p, ok := moves.NewBricks(width, 0, 0, n, 46<<10, "slim", nil)
			require.True(t, ok)
			require.LessOrEqual(t, p.Shared, int32(46<<10))
			require.Equal(t, long || width == 4, p.Shared <= most, "%d %d: %d", width, extent, p.Shared)
		}
	}
}

// Tiles of small units are as fast as memory where all are full, and bricks faster
// where many are not.
func TestBricksReplaceTilesThatAreNotFull(t *testing.T) {
	const rows = 1 << 20
	for columns, bricks := range map[int64]bool{128: false, 1024: false, 80: true, 208: true, 1008: true} {
		for _, n := range []layout.Nest{
			{Shape: []int64{columns, rows}, Strides: [][]int64{{2 * rows, 2}, {2, 2 * columns}}, Offsets: []int64{0, 0}},
			{Shape: []int64{rows, columns}, Strides: [][]int64{{2 * columns, 2}, {2, 2 * rows}}, Offsets: []int64{0, 0}},
		} {
			tiles, kernel, ok := moves.NewTiles(2, 0, 0, n, memory)
			require.True(t, ok)
			require.EqualValues(t, "words", kernel)
			_, ok = moves.NewBricks(2, 0, 0, n, 110<<10, kernel, tiles)
			require.Equal(t, bricks, ok, "%v", n)
		}
	}
}
