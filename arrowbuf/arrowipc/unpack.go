package arrowipc

import (
	"fmt"
	"runtime"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// alignment of the buffers of a body that was unpacked, as the Arrow columnar
// format recommends.
const alignment = 64

// unpack makes the buffers of a body that is compressed, or of the other byte
// order: each on the host, by one of several goroutines, in memory from which it
// is copied to its place in one allocation on the device.
func (in *incoming) unpack(body Body) ([]*memory.Buffer, error) {
	from, total := in.rows.buffers, int64(0)
	for _, b := range from {
		if total += b.Length; total > in.bodyLength {
			return nil, fmt.Errorf("buffers that overlap: %w", arrow.ErrInvalid)
		}
	}
	to, packed := make([]Extent, len(from)), make([]bool, len(from))
	var size int64
	for i, b := range from {
		n, compressed, err := in.unpacked(body, b)
		if err == nil {
			err = in.needs[i].check(n)
		}
		if err != nil {
			return nil, in.ofBuffer(i, err)
		}
		to[i], packed[i] = Extent{size, n}, compressed
		if size += (n + alignment - 1) &^ (alignment - 1); size < 0 {
			return nil, fmt.Errorf("buffers of more bytes than can be counted: %w", arrow.ErrInvalid)
		}
	}
	whole, err := in.dev.Alloc(max(size, alignment))
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range from {
		if to[i].Length > 0 {
			work.Go(func() error {
				if err := in.unpackOne(whole, to[i], body, from[i], packed[i], in.needs[i].order); err != nil {
					return in.ofBuffer(i, err)
				}
				return nil
			})
		}
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	return slicesOf(whole, to)
}

// unpacked is how long a buffer of the body will be.
func (in *incoming) unpacked(body Body, b Extent) (n int64, compressed bool, err error) {
	if in.rows.codec == Uncompressed || b.Length < prefixLength {
		if in.rows.codec != Uncompressed && b.Length > 0 {
			_, _, err = in.rows.codec.inflated(nil, b.Length)
		}
		return b.Length, false, err
	}
	prefix, err := hostOf(body, Extent{b.Offset, prefixLength})
	if err != nil {
		return 0, false, err
	}
	return in.rows.codec.inflated(prefix, b.Length)
}

func (in *incoming) unpackOne(dst arrowbuf.Buffer, to Extent, body Body, from Extent, packed bool, o order) error {
	if in.rows.codec != Uncompressed {
		from = Extent{from.Offset + prefixLength, from.Length - prefixLength}
	}
	src, err := hostOf(body, from)
	if err != nil {
		return err
	}
	return fill(dst, to, func(b []byte) error {
		if !packed {
			copy(b, src)
		} else if err := in.rows.codec.inflate(b, src); err != nil {
			return err
		}
		if in.swapped {
			o.turn(b)
		}
		return nil
	})
}

// hostOf returns bytes of a body on the host, in place where they are there.
func hostOf(body Body, r Extent) ([]byte, error) {
	part, err := body.Slice(r.Offset, r.Length)
	if err != nil {
		return nil, err
	}
	defer part.Release()
	if host, ok := arrowbuf.HostBytes(part); ok {
		return host, nil
	}
	b := make([]byte, r.Length)
	_, err = part.CopyToHost(b, 0)
	return b, err
}

// fill has the bytes of a range of a buffer made: in place where the host reaches
// them, else in memory from which the device copies fastest.
func fill(dst arrowbuf.Buffer, r Extent, produce func([]byte) error) error {
	if host, ok := arrowbuf.HostBytes(dst); ok {
		return produce(host[r.Offset : r.Offset+r.Length : r.Offset+r.Length])
	}
	mem, err := stage(dst.Device(), r.Length)
	if err != nil {
		return err
	}
	defer dst.Device().HostAllocator().Free(mem)
	if err := produce(mem); err != nil {
		return err
	}
	_, err = dst.CopyFromHost(mem, r.Offset)
	return err
}

// stage takes memory of the device's HostAllocator, which reports by a panic that
// it has none.
func stage(dev arrowbuf.Device, n int64) (b []byte, err error) {
	defer func() {
		if failure := recover(); failure != nil {
			cause, ok := failure.(error)
			if !ok {
				panic(failure)
			}
			err = fmt.Errorf("memory to copy from: %w", cause)
		}
	}()
	return dev.HostAllocator().Allocate(int(n)), nil
}
