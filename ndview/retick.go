package ndview

import (
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

// retick writes times of the same shape to a, whose ticks are others. They are
// converted where no gaps are: in a copy, unless both are so. Where one cannot be
// converted the error is ErrRange; what a holds then is undefined.
func (a *NDBuffer) retick(src *NDBuffer) error {
	c, err := tick.NewConversion(src.dtype.tick(), a.dtype.tick(), a.dtype.kind == KindDatetime)
	if err != nil {
		return a.outOfTicks(src)
	}
	b := nestOf(a, src)
	if n, ok := b.run(); ok && b.aligned() {
		return b.retick(n, &c)
	}
	from, err := src.Copy(OrderC)
	if err != nil {
		return err
	}
	defer from.Release()
	to, err := Empty(a.Device(), a.dtype, a.shape...)
	if err != nil {
		return err
	}
	defer to.Release()
	b = nestOf(to, from)
	if err := b.retick(a.Size(), &c); err != nil {
		return err
	}
	return copyLayout(a, to)
}

// convertsAll tells whether there is no time of one type that the unit of another does
// not count.
func convertsAll(from, to DType) bool {
	c, err := tick.NewConversion(from.tick(), to.tick(), to.kind == KindDatetime)
	return err == nil && c.Exact()
}

func (a *NDBuffer) outOfTicks(src *NDBuffer) error {
	return fmt.Errorf("times of %s as %s: a count is beyond 64 bits: %w", src.dtype, a.dtype, ErrRange)
}

// retick converts n times without gaps.
func (b *both) retick(n int64, c *tick.Conversion) error {
	if to, ok := hostAt(b.dst.buf, b.out); ok {
		from, _ := hostAt(b.src.buf, b.in)
		var bad uint32
		if cpu.Retick(to, from, n, c, &bad); bad != 0 {
			return b.dst.outOfTicks(b.src)
		}
		return nil
	}
	flag, err := Zeros(b.dst.Device(), Uint32)
	if err != nil {
		return err
	}
	defer flag.Release()
	err = launch.Items(b.dst.Device(), retickProgram, "quiver_convert_unit", n, 1,
		launch.In(b.src.buf, b.in), launch.InOut(b.dst.buf, b.out), n, launch.StructOf(c), flag.inOut())
	if err != nil || c.Exact() {
		return err
	}
	bad, err := flag.Bytes()
	if err == nil && binary.NativeEndian.Uint32(bad) != 0 {
		err = b.dst.outOfTicks(b.src)
	}
	return err
}

var retickProgram = launch.Program("elementwise/convert_unit", map[string]cudabuf.HostKernel{"quiver_convert_unit": func(l *cudabuf.HostLaunch) {
	n, c := l.Int64(2), launch.Parameters[tick.Conversion](l, 3)
	launch.MustAlign(l, 0, 8)
	launch.MustAlign(l, 1, 8)
	cpu.Retick(launch.Reached(l, 1, 0, 8*n), launch.Reached(l, 0, 0, 8*n), n, &c, (*uint32)(launch.Reached(l, 4, 0, 4)))
}})
