package pool

import (
	"cmp"
	"math/bits"
	"slices"
)

// bins are blocks in the order of their sizes, and of their addresses among
// equal ones. Bin i has those of [2^(i-1), 2^i) times Align, so that putting one
// in moves only pointers of blocks of about its size.
type bins[S comparable] [64][]*Block[S]

// find is the place of the first block that is not less.
func (b *bins[S]) find(size int64, address uintptr) (bin, i int) {
	bin = bits.Len64(uint64(size / Align))
	i, _ = slices.BinarySearchFunc(b[bin], size, func(x *Block[S], size int64) int {
		return cmp.Or(cmp.Compare(x.Size, size), cmp.Compare(x.Address, address))
	})
	return bin, i
}

func (b *bins[S]) add(x *Block[S]) {
	bin, i := b.find(x.Size, x.Address)
	b[bin] = slices.Insert(b[bin], i, x)
}

func (b *bins[S]) remove(x *Block[S]) {
	bin, i := b.find(x.Size, x.Address)
	b[bin] = slices.Delete(b[bin], i, i+1)
}

// best is the smallest block of at least n bytes, nil if there is none.
func (b *bins[S]) best(n int64) *Block[S] {
	bin, i := b.find(n, 0)
	if i < len(b[bin]) {
		return b[bin][i]
	}
	for _, list := range b[bin+1:] {
		if len(list) > 0 {
			return list[0]
		}
	}
	return nil
}

// heap are free blocks that are pending on the same streams.
type heap[S comparable] struct {
	small, whole bins[S]
	bytes        int64 // of all
}

func (h *heap[S]) of(b *Block[S]) *bins[S] {
	if b.whole {
		return &h.whole
	}
	return &h.small
}

func (h *heap[S]) add(b *Block[S]) {
	h.bytes += b.Size
	h.of(b).add(b)
}

func (h *heap[S]) remove(b *Block[S]) {
	h.bytes -= b.Size
	h.of(b).remove(b)
}

// blocks is a copy of all, largest first, that may be used while blocks come and
// go.
func (h *heap[S]) blocks() []*Block[S] {
	var all []*Block[S]
	for _, bins := range []*bins[S]{&h.whole, &h.small} {
		for _, bin := range slices.Backward(bins[:]) {
			for _, b := range slices.Backward(bin) {
				all = append(all, b)
			}
		}
	}
	return all
}
