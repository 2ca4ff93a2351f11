package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// ByteSwap turns around the bytes of each number, in place, as data of the other
// byte order needs it: of a complex number those of either part. Bools, [Bytes]
// and numbers of one byte stay as they are; records are ErrDType.
func (a *NDBuffer) ByteSwap() error {
	release, err := holdToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	size, err := a.dtype.swapped()
	if err != nil || size == 1 || a.Size() == 0 {
		return err
	}
	if b := nestOf(a, a); b.gapless() {
		return swapBytes(a, a, b.in-a.offset, size)
	}
	dense, err := a.Copy(OrderC)
	if err != nil {
		return err
	}
	defer dense.Release()
	if err := swapBytes(dense, dense, 0, size); err != nil {
		return err
	}
	return copyLayout(a, dense)
}

// ByteSwapped is a copy, in the order K, with the bytes turned around as
// ByteSwap does.
func (a *NDBuffer) ByteSwapped() (*NDBuffer, error) {
	if err := a.hold(); err != nil {
		return nil, err
	}
	defer a.Release()
	size, err := a.dtype.swapped()
	if err != nil {
		return nil, err
	}
	c, err := a.emptyLike(a.dtype, OrderK)
	if err != nil || a.Size() == 0 {
		return c, err
	}
	if b := nestOf(c, a); size > 1 && b.gapless() {
		err = swapBytes(c, a, b.in-a.offset, size)
	} else if err = copyLayout(c, a); err == nil && size > 1 {
		err = swapBytes(c, c, 0, size)
	}
	if err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

// swapped is the size of the numbers whose bytes have an order.
func (t DType) swapped() (int64, error) {
	switch t.kind {
	case KindBytes:
		return 1, nil
	case KindRecord:
		return 0, fmt.Errorf("turning the bytes of %s around: %w", t, ErrDType)
	case KindComplex:
		return t.Size() / 2, nil
	default:
		return t.Size(), nil
	}
}

// swapBytes swaps the bytes of gapless elements. Those of src begin so many bytes
// beside the first, as those of dst do where it is the same array.
func swapBytes(dst, src *NDBuffer, beside, size int64) error {
	n, to := src.NBytes(), int64(0)
	if dst == src {
		to = beside
	}
	if to, ok := hostAt(dst.buf, dst.offset+to); ok {
		from, _ := hostAt(src.buf, src.offset+beside)
		cpu.SwapBytes(to, from, n, size)
		return nil
	}
	return launch.Items(dst.Device(), swapProgram, "quiver_byteswap", n, 16, src.at(beside), dst.atOut(to), n, int32(size))
}

var swapProgram = launch.Program("copy/byteswap", map[string]cudabuf.HostKernel{"quiver_byteswap": func(l *cudabuf.HostLaunch) {
	n := l.Int64(2)
	cpu.SwapBytes(launch.Reached(l, 1, 0, n), launch.Reached(l, 0, 0, n), n, int64(l.Int32(3)))
}})
