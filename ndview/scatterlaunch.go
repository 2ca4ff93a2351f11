package ndview

import (
	"fmt"
	"math/bits"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// scatterUnits writes values, units of width bytes, to places of a buffer.
func scatterUnits(to arrowbuf.Buffer, where *places, values *NDBuffer, width int64, walk *cpu.Walk, apart bool) error {
	if dst, ok := hostAt(to, where.offset); ok {
		pos, _ := where.indices.hostAt()
		from, _ := values.hostAt()
		cpu.Scatter(dst, pos, from, width, walk, where.extent, where.step, apart)
		return nil
	}
	return walk.Cut(maxItems, func(part *cpu.Walk, _ int64, at cpu.Offset) error {
		return launch.Items(to.Device(), putProgram, fmt.Sprintf("quiver_scatter_%d", width), part.Items, perThread,
			launch.InOut(to, where.offset+at.Data), where.indices.at(at.Index), values.at(at.Value), launch.StructOf(part), where.extent, where.step)
	})
}

// settle strikes out all but the last of equal places, where scatterUnits would
// write in no order. It answers whether places are apart then.
func (w *places) settle() (apart bool, err error) {
	pos := w.indices
	n := pos.Size()
	if _, onHost := pos.hostAt(); onHost || n < 2 {
		return n < 2, nil
	}
	// A table of all elements, unless it were much larger than one of those that
	// are chosen.
	slots, hashed := w.extent, false
	if few := int64(1) << bits.Len64(uint64(2*n-1)); w.extent > max(4*few, 1<<20) {
		slots, hashed = few, true
	}
	size := Uint32
	if n >= 1<<32-1 {
		size = Uint64
	}
	claims, err := Zeros(pos.Device(), size, slots)
	if err != nil {
		return false, err
	}
	defer claims.Release()
	var keys any = uintptr(0)
	if hashed {
		table, err := Zeros(pos.Device(), Uint64, slots)
		if err != nil {
			return false, err
		}
		defer table.Release()
		keys = table.inOut()
	}
	for _, kernel := range []string{"quiver_claim", "quiver_discard"} {
		name := fmt.Sprintf("%s_%d", kernel, 8*size.size)
		if err := launch.Items(pos.Device(), putProgram, name, n, perThread, pos.inOut(), n, claims.inOut(), keys, uint64(slots)); err != nil {
			return false, err
		}
	}
	return true, nil
}

var putProgram = launch.Program("index/put", putTwins())

func putTwins() map[string]cudabuf.HostKernel {
	twins := map[string]cudabuf.HostKernel{}
	for _, width := range []int64{1, 2, 4, 8, 16} {
		twins[fmt.Sprintf("quiver_scatter_%d", width)] = func(l *cudabuf.HostLaunch) {
			walk, extent, step := launch.Parameters[cpu.Walk](l, 3), l.Int64(4), l.Int64(5)
			valueLow, valueHigh := walk.Reach(&walk.Value, width)
			indexLow, indexHigh := walk.Reach(&walk.Index, 8)
			low, high := walk.Reach(&walk.Data, width)
			launch.MustAlign(l, 0, width, append(walk.Data[:walk.Axes:walk.Axes], step)...)
			launch.MustAlign(l, 1, 8, walk.Index[:walk.Axes]...)
			launch.MustAlign(l, 2, width, walk.Value[:walk.Axes]...)
			cpu.Scatter(launch.Reached(l, 0, low, high+(extent-1)*step), launch.Reached(l, 1, indexLow, indexHigh),
				launch.Reached(l, 2, valueLow, valueHigh), width, &walk, extent, step, true)
		}
	}
	twins["quiver_claim_32"] = claimTwin[uint32]
	twins["quiver_claim_64"] = claimTwin[uint64]
	twins["quiver_discard_32"] = settleTwin[uint32]
	twins["quiver_discard_64"] = settleTwin[uint64]
	return twins
}

// claimsOf are a launch's positions, its claims, and where those to a position
// are.
func claimsOf[Claim uint32 | uint64](l *cudabuf.HostLaunch) (pos []int64, claims []Claim, slot func(at int64) int64) {
	slots := int64(l.Uint64(4))
	pos = cudabuf.Elements[int64](l, l.Pointer(0), l.Int64(1))
	claims = cudabuf.Elements[Claim](l, l.Pointer(2), slots)
	if l.Pointer(3) == 0 {
		return pos, claims, func(at int64) int64 { return at }
	}
	keys := cudabuf.Elements[uint64](l, l.Pointer(3), slots)
	return pos, claims, func(at int64) int64 {
		for s := at % slots; ; s = (s + 1) % slots {
			if keys[s] == 0 {
				keys[s] = uint64(at) + 1
			}
			if keys[s] == uint64(at)+1 {
				return s
			}
		}
	}
}

func claimTwin[Claim uint32 | uint64](l *cudabuf.HostLaunch) {
	pos, claims, slot := claimsOf[Claim](l)
	for j, at := range pos {
		claims[slot(at)] = Claim(j) + 1
	}
}

func settleTwin[Claim uint32 | uint64](l *cudabuf.HostLaunch) {
	pos, claims, slot := claimsOf[Claim](l)
	for j, at := range pos {
		if claims[slot(at)] != Claim(j)+1 {
			pos[j] = cpu.StruckOut
		}
	}
}
