package moves

// Odd tiles are images, in shared memory, of what they write: see kernels/odd.cu.

// oddSides are the most that a tile of units of 1 and 2 bytes has along A, in
// bytes, and along B, in units.
var oddSides = map[int64]sides{1: {288, 128}, 2: {160, 128}}

const (
	held    = 16       // bytes that are written at once
	oddRoom = 44 << 10 // bytes of an image, beside which tables need room
)

// isOdd tells whether rows of the destination so many bytes apart are not a
// multiple of four units apart. Rows of an image are as far, and banks differ.
func isOdd(width, stride int64) bool { return width < 4 && stride/width%4 != 0 }

// oddLines plans matrices of short rows, as many at once as there is room for.
func (t *Tiles) oddLines(width int64) {
	bytes, unit := width*int64(t.ItemsA), 4/width
	most := min(256/width, (oddRoom-held)/bytes/unit*unit)
	t.SideA, t.SideB = t.ItemsA, even(t.ItemsB, most)
	t.Shared = int32(held + upTo(int64(t.SideB), unit)*bytes)
	t.cut(sides{int64(t.SideA), int64(t.SideB)})
}

// oddRuns plans runs of A, as long as each other and as long as there is room for,
// in rows of the destination so many bytes apart.
func (t *Tiles) oddRuns(width, stride int64) {
	most, units := oddSides[width], sector/width
	t.Halo = int32(units) - 1
	items := int64(t.ItemsA) + int64(t.Halo)
	chunks := (items-1)/(most.a/width) + 1
	side := upTo((items-1)/chunks+1, units)
	pitch := width*(side+units) + held - 1
	pitch += (stride - pitch) & (held - 1)
	t.SideA, t.SideB, t.Pitch = int32(side), even(t.ItemsB, most.b), int32(pitch)
	t.Shared = int32(pitch * upTo(int64(t.SideB), 4/width))
	t.By = divide(side * width / held)
	t.cut(sides{side, int64(t.SideB)})
}

// upTo is the next multiple of a number.
func upTo(n, of int64) int64 { return (n + of - 1) / of * of }
